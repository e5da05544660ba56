// The card "Samples": drop, choose, paste, pick or draw.
import { decide } from "./deciding.js";
import { showDemoSamples } from "./demo_samples.js";
import { fill, find, h } from "./dom.js";
import { showDrawing } from "./drawing.js";
import { showError } from "./jobs.js";
import { isPicture, isTable, openTable, PictureSet, TableSet } from "./sample_set.js";
import { on, state } from "./state.js";
import { bytes, count } from "./wording.js";

const SOURCES = [
  ["pick", "Pick"],
  ["draw", "Draw"],
  ["file", "File"],
  ["paste", "Paste"],
];
let source = null;

export function startSamples() {
  find("choose").addEventListener("click", () => find("file").click());
  find("choose-folder").addEventListener("click", () => find("folder").click());
  for (const input of [find("file"), find("folder")]) {
    input.addEventListener("change", () => {
      takeFiles([...input.files]);
      input.value = "";
    });
  }
  find("paste-decide").addEventListener("click", takePasted);
  wireDropping();
  on("model", showSources);
  on("samples", showReading);
}

/** Whether the model is that of the demo, whose samples the server has. */
const hasDemo = () => state.demo && state.model?.picture_shape?.join() === "8,8" && state.model.features === 64;

function showSources() {
  const offered = SOURCES.filter(([name]) => {
    if (name === "pick" || name === "draw") return hasDemo();
    return name === "file" || state.model.takes === "table";
  });
  if (!offered.some(([name]) => name === source)) source = offered[0][0];
  const options = offered.map(([name, text]) =>
    h(
      "label",
      { class: "segment" },
      h("input", {
        type: "radio",
        name: "source",
        value: name,
        checked: name === source,
        on: { change: () => show(name) },
      }),
      h("span", {}, text),
    ),
  );
  fill(find("source"), find("source").querySelector("legend"), options);
  const pictures = state.model.takes === "pictures";
  find("drop-title").textContent = pictures ? "Drop pictures here" : "Drop a table here";
  find("choose").textContent = pictures ? "Choose pictures" : "Choose a file";
  find("choose-folder").hidden = !pictures;
  find("file").accept = pictures ? "image/*" : ".csv,.tsv,.txt,.npy,.npz,.parquet,.pq";
  find("drop-hint").textContent = pictures
    ? "Photographs of one sample each, or a folder with them."
    : `CSV, TSV, NPY or Parquet with ${count(state.model.features, "column")} of numbers, one sample a row.`;
  show(source);
}

function show(name) {
  source = name;
  for (const [other] of SOURCES) find(`source-${other}`).hidden = other !== name;
  if (name === "pick") showDemoSamples(find("source-pick"));
  if (name === "draw") showDrawing(find("source-draw"));
}

function wireDropping() {
  const drop = find("drop");
  let depth = 0;
  const over = (on_) => drop.classList.toggle("over", on_);
  // A file dropped anywhere on the page is meant for the card; the browser would open it instead.
  addEventListener("dragenter", (event) => {
    if (!event.dataTransfer?.types.includes("Files")) return;
    depth += 1;
    location.hash = "#decide";
    if (state.model) show("file");
    const chosen = find("source").querySelector('input[value="file"]');
    if (chosen) chosen.checked = true;
    over(true);
  });
  addEventListener("dragleave", () => {
    depth = Math.max(depth - 1, 0);
    if (!depth) over(false);
  });
  addEventListener("dragover", (event) => event.preventDefault());
  addEventListener("drop", async (event) => {
    event.preventDefault();
    depth = 0;
    over(false);
    const entries = [...event.dataTransfer.items].map((item) => item.webkitGetAsEntry?.()).filter(Boolean);
    const files = entries.some((entry) => entry.isDirectory)
      ? await readFolders(entries)
      : [...event.dataTransfer.files];
    takeFiles(files);
  });
}

/** Return the files of dropped folders, each with the path it was found at. */
async function readFolders(entries) {
  const files = [];
  for (const entry of entries) {
    if (entry.isFile) {
      const file = await new Promise((resolve, reject) => entry.file(resolve, reject));
      file.folderPath = entry.fullPath;
      files.push(file);
      continue;
    }
    const reader = entry.createReader();
    for (;;) {
      const part = await new Promise((resolve, reject) => reader.readEntries(resolve, reject));
      if (!part.length) break;
      files.push(...(await readFolders(part)));
    }
  }
  return files;
}

async function takeFiles(files) {
  const problem = find("source-problem");
  fill(problem);
  if (!files.length || !state.model) return;
  const refuse = (message) => showError(problem, { message, status: 422 });
  if (state.model.takes === "pictures") {
    const pictures = files.filter(isPicture);
    if (!pictures.length)
      return refuse(`${files[0].name} is not a picture; the model ${state.model.name} takes pictures.`);
    return decide(new PictureSet(pictures));
  }
  const tables = files.filter(isTable);
  if (!tables.length) return refuse(`${files[0].name} is not a table: CSV, TSV, NPY or Parquet.`);
  if (tables.length > 1) return refuse("Drop one table at a time.");
  return decide(await openTable(tables[0], state.model));
}

async function takePasted() {
  const problem = find("source-problem");
  fill(problem);
  const text = find("paste").value.trim();
  if (!text) return showError(problem, { message: "Paste at least one row of numbers.", status: 422 });
  const suffix = text.split("\n", 1)[0].includes("\t") ? "tsv" : "csv";
  const file = new File([`${text}\n`], `pasted.${suffix}`, {
    type: suffix === "tsv" ? "text/tab-separated-values" : "text/csv",
  });
  return decide(await openTable(file, state.model));
}

function showReading() {
  const fold = find("reading");
  const set = state.samples;
  fold.hidden = !(set instanceof TableSet);
  if (fold.hidden) return;
  const { reading, columns, file } = set;
  const names = columns.length
    ? h(
        "select",
        { id: "reading-label" },
        h("option", { value: "" }, "None"),
        columns.map((name) => h("option", { value: name, selected: name === reading.label }, name)),
      )
    : h("input", { id: "reading-label", value: reading.label, placeholder: "none" });
  const ignore = h("input", { id: "reading-ignore", value: reading.ignore.join(", "), placeholder: "none" });
  const box = (name, text, checked) =>
    h("label", { class: "check" }, h("input", { type: "checkbox", name, checked }), h("span", {}, text));
  const form = find("reading-form");
  fill(
    form,
    h("p", { class: "quiet wide" }, `${file.name}, ${bytes(file.size)}`),
    h("label", { for: "reading-label" }, "Column with the true classes"),
    names,
    h("label", { for: "reading-ignore" }, "Columns to leave out"),
    ignore,
    h(
      "div",
      { class: "wide checks" },
      box("header", "The first line has the names of the columns", reading.header),
      box("by_name", "Find columns by name, in any order", reading.by_name),
      box("drop_missing", "Leave out rows with missing values", reading.drop_missing),
    ),
    h("div", { class: "wide actions" }, h("button", { type: "submit", class: "button" }, "Decide again")),
  );
  form.onsubmit = (event) => {
    event.preventDefault();
    reading.label = form.querySelector("#reading-label").value.trim();
    reading.ignore = ignore.value
      .split(",")
      .map((name) => name.trim())
      .filter(Boolean);
    for (const input of form.querySelectorAll("input[type=checkbox]")) reading[input.name] = input.checked;
    decide(set);
  };
}
