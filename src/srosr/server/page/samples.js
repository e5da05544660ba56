// The card "Samples": drop, choose, paste, pick or draw.
import { decide } from "./deciding.js";
import { showDemoSamples } from "./demo_samples.js";
import { fill, find, h, keepFocus } from "./dom.js";
import { showDrawing } from "./drawing.js";
import { clearNotice, showError } from "./jobs.js";
import { isPicture, isTable, openTable, PictureSet, TableSet } from "./sample_set.js";
import { on, state } from "./state.js";
import { bytes, count } from "./wording.js";

let source = null;
let choices = 0;
let readingOf = null;

const inputs = () => [...find("source").querySelectorAll("input")];

export function startSamples() {
  for (const input of inputs()) input.addEventListener("change", () => show(input.value));
  find("choose").addEventListener("click", () => find("file").click());
  find("choose-folder").addEventListener("click", () => find("folder").click());
  for (const input of [find("file"), find("folder")]) {
    input.addEventListener("change", () => {
      takeFiles([...input.files]);
      input.value = "";
    });
  }
  find("source-paste").addEventListener("submit", takePasted);
  find("reading-form").addEventListener("submit", readAgain);
  wireDropping();
  on("model", showSources);
  on("samples", showReading);
}

/** Whether the model is that of the demo, whose samples the server has. */
const hasDemo = () => state.demo && state.model?.picture_shape?.join() === "8,8" && state.model.features === 64;

function showSources() {
  const pictures = state.model.takes === "pictures";
  const offered = [...(hasDemo() ? ["pick", "draw"] : []), "file", ...(pictures ? [] : ["paste"])];
  for (const input of inputs()) input.parentElement.hidden = !offered.includes(input.value);
  find("drop-title").textContent = pictures ? "Drop pictures here" : "Drop a table here";
  find("choose").textContent = pictures ? "Choose pictures" : "Choose a file";
  find("choose-folder").hidden = !pictures;
  find("file").accept = pictures ? "image/*" : ".csv,.tsv,.txt,.npy,.npz,.parquet,.pq";
  find("drop-hint").textContent = pictures
    ? "Photographs of one sample each, or a folder with them."
    : `CSV, TSV, NPY, NPZ or Parquet with ${count(state.model.features, "column")} of numbers, one sample a row.`;
  show(offered.includes(source) ? source : offered[0]);
}

function show(name) {
  source = name;
  for (const input of inputs()) {
    input.checked = input.value === name;
    find(`source-${input.value}`).hidden = input.value !== name;
  }
  if (name === "pick") showDemoSamples(find("source-pick"));
  if (name === "draw") showDrawing(find("source-draw"));
  showReading();
}

function wireDropping() {
  const drop = find("drop");
  let depth = 0;
  // A file dropped anywhere on the page is meant for the card; the browser would open it instead.
  const hasFiles = (event) => event.dataTransfer?.types.includes("Files") ?? false;
  const isAsking = () => document.querySelector("dialog[open]:not(#why)") !== null;
  addEventListener("dragenter", (event) => {
    if (!hasFiles(event) || isAsking()) return;
    depth += 1;
    find("why").close(); // it asks nothing
    location.hash = "#decide";
    if (state.model) show("file");
    drop.classList.add("over");
  });
  addEventListener("dragleave", () => {
    depth = Math.max(depth - 1, 0);
    if (!depth) drop.classList.remove("over");
  });
  addEventListener("dragover", (event) => {
    if (hasFiles(event)) event.preventDefault();
  });
  addEventListener("drop", (event) => {
    if (!hasFiles(event)) return; // a text that is dragged into a field
    event.preventDefault();
    depth = 0;
    drop.classList.remove("over");
    if (isAsking()) return; // an open question is about the samples that are there
    const entries = [...event.dataTransfer.items].map((item) => item.webkitGetAsEntry()).filter(Boolean);
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
      files.push(Object.assign(file, { folderPath: entry.fullPath }));
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

/** Decide on chosen files, or on those of dropped folders once they are found. */
async function takeFiles(given) {
  // What was wrong with what was given before is no longer said.
  fill(find("source-problem"));
  clearNotice(find("decide-job"));
  if (!state.model) return;
  choices += 1;
  const choice = choices;
  const { model } = state;
  let set;
  try {
    set = await makeSet(await given, model);
  } catch ({ message }) {
    if (choice === choices) showError(find("source-problem"), { message, status: 422 });
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

function takePasted(event) {
  event.preventDefault();
  let text = find("paste").value.trim();
  if (!/[,;\t]/.test(text)) text = text.replace(/ +/g, ",");
  const [suffix, type] = /^.*\t/.test(text) ? ["tsv", "text/tab-separated-values"] : ["csv", "text/csv"];
  takeFiles([new File([`${text}\n`], `pasted.${suffix}`, { type })]);
}

function showReading() {
  const set = state.samples;
  find("reading").hidden = !(set instanceof TableSet) || (source !== "file" && source !== "paste");
  if (find("reading").hidden || set === readingOf) return; // what is being typed into the form stays
  readingOf = set;
  const { reading, columns, file } = set;
  const form = find("reading-form");
  find("reading-file").textContent = `${file.name}, ${bytes(file.size)}`;
  const options = columns.map((name) => h("option", { value: name }, name));
  const label = { id: "reading-label", name: "label" };
  const control = columns.length
    ? h("select", label, h("option", { value: "" }, "None"), options)
    : h("input", { ...label, placeholder: "none, or a number from 0" });
  keepFocus(form, () => find("reading-label").replaceWith(control));
  form.elements.label.value = reading.label;
  form.elements.ignore.value = reading.ignore.join(", ");
  form.elements.ignore.placeholder = columns.length ? "none" : "none, or numbers from 0";
  for (const name of ["header", "by_name", "drop_missing"]) form.elements[name].checked = reading[name];
}

function readAgain(event) {
  event.preventDefault();
  const fields = new FormData(event.target);
  const ignore = fields.get("ignore").split(",");
  decide(
    readingOf.readAs({
      label: fields.get("label").trim(),
      ignore: ignore.map((name) => name.trim()).filter(Boolean),
      header: fields.has("header"),
      by_name: fields.has("by_name"),
      drop_missing: fields.has("drop_missing"),
    }),
  );
}
