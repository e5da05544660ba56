// The card "Samples": drop, choose, paste, pick or draw.
import { decide } from "./deciding.js";
import { showDemoSamples } from "./demo_samples.js";
import { fill, find, h, keepFocus } from "./dom.js";
import { showDrawing } from "./drawing.js";
import { clearNotice, showError } from "./jobs.js";
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
let choices = 0;
let readingOf = null;

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
    : `CSV, TSV, NPY, NPZ or Parquet with ${count(state.model.features, "column")} of numbers, one sample a row.`;
  show(source);
}

function show(name) {
  source = name;
  for (const [other] of SOURCES) find(`source-${other}`).hidden = other !== name;
  if (name === "pick") showDemoSamples(find("source-pick"));
  if (name === "draw") showDrawing(find("source-draw"));
  showReading();
}

function wireDropping() {
  const drop = find("drop");
  let depth = 0;
  const over = (on_) => drop.classList.toggle("over", on_);
  // A file dropped anywhere on the page is meant for the card; the browser would open it instead.
  const hasFiles = (event) => event.dataTransfer?.types.includes("Files") ?? false;
  const isAsking = () => document.querySelector("dialog[open]:not(#why)") !== null;
  addEventListener("dragenter", (event) => {
    if (!hasFiles(event) || isAsking()) return;
    depth += 1;
    find("why").close(); // it asks nothing
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
  addEventListener("dragover", (event) => {
    if (hasFiles(event)) event.preventDefault();
  });
  addEventListener("drop", (event) => {
    if (!hasFiles(event)) return; // a text that is dragged into a field
    event.preventDefault();
    depth = 0;
    over(false);
    if (isAsking()) return; // an open question is about the samples that are there
    const entries = [...event.dataTransfer.items].map((item) => item.webkitGetAsEntry?.()).filter(Boolean);
    const files = [...event.dataTransfer.files];
    takeFiles(entries.some((entry) => entry.isDirectory) ? openFolders(entries) : files);
  });
}

const openFolders = (entries) =>
  readFolders(entries).catch(() => {
    throw new Error("The folder cannot be read: drop it again.");
  });

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

/** Take away what was wrong with what was given before. */
function clearProblems() {
  fill(find("source-problem"));
  clearNotice(find("decide-job"));
}

const refuse = (message) => showError(find("source-problem"), { message, status: 422 });

/** Decide on chosen files, or on those of dropped folders once they are found. */
async function takeFiles(given) {
  clearProblems();
  if (!state.model) return;
  choices += 1;
  const choice = choices;
  const { model } = state;
  let set;
  try {
    set = await makeSet(await given, model);
  } catch (error) {
    if (choice === choices) refuse(error.message);
    return;
  }
  // Of two files the one that was chosen last counts, though the first may take longer to open.
  if (set && choice === choices && model.name === state.model.name) decide(set);
}

/** Return the set of samples that files hold for a model, null if there is no file. Errors say what is wrong. */
async function makeSet(files, model) {
  if (!files.length) return null;
  if (model.takes === "pictures") {
    const pictures = files.filter(isPicture);
    if (pictures.length) return new PictureSet(pictures);
    throw new Error(`${files[0].name} is not a picture; the model ${model.name} takes pictures.`);
  }
  const tables = files.filter(isTable);
  if (!tables.length) throw new Error(`${files[0].name} is not a table: CSV, TSV, NPY, NPZ or Parquet.`);
  if (tables.length > 1) throw new Error("Drop one table at a time.");
  try {
    return await openTable(tables[0], model);
  } catch {
    throw new Error(`${tables[0].name} cannot be read: choose it again.`);
  }
}

function takePasted() {
  clearProblems();
  let text = find("paste").value.trim();
  if (!text) return refuse("Paste at least one row of numbers.");
  if (!/[,;\t]/.test(text)) text = text.replace(/ +/g, ",");
  const suffix = text.split("\n", 1)[0].includes("\t") ? "tsv" : "csv";
  const file = new File([`${text}\n`], `pasted.${suffix}`, {
    type: suffix === "tsv" ? "text/tab-separated-values" : "text/csv",
  });
  return takeFiles([file]);
}

function showReading() {
  const fold = find("reading");
  const set = state.samples;
  fold.hidden = !(set instanceof TableSet) || (source !== "file" && source !== "paste");
  if (fold.hidden || set === readingOf) return; // what is being typed into the form stays
  readingOf = set;
  keepFocus(fold, () => drawReading(set));
}

function drawReading(set) {
  const { reading, columns, file } = set;
  const names = columns.length
    ? h(
        "select",
        { id: "reading-label" },
        h("option", { value: "" }, "None"),
        columns.map((name) => h("option", { value: name, selected: name === reading.label }, name)),
      )
    : h("input", { id: "reading-label", value: reading.label, placeholder: "none, or a number from 0" });
  const without = columns.length ? "none" : "none, or numbers from 0";
  const ignore = h("input", { id: "reading-ignore", value: reading.ignore.join(", "), placeholder: without });
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
    h(
      "div",
      { class: "wide actions" },
      h("button", { type: "submit", class: "button", data: { focus: "reading" } }, "Decide again"),
    ),
  );
  form.onsubmit = (event) => {
    event.preventDefault();
    const label = form.querySelector("#reading-label").value.trim();
    const left = ignore.value
      .split(",")
      .map((name) => name.trim())
      .filter(Boolean);
    const boxes = [...form.querySelectorAll("input[type=checkbox]")].map((input) => [input.name, input.checked]);
    decide(set.readAs({ ...reading, label, ignore: left, ...Object.fromEntries(boxes) }));
  };
}
