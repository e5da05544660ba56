// The model: its facts, its classes, its versions, and what can be changed.
import { modelPath, request } from "./api.js";
import { bar, card, facts, table } from "./cards.js";
import { fill, find, h, keepFocus } from "./dom.js";
import { runJob } from "./jobs.js";
import { changeModel } from "./model_changes.js";
import { on, state, whyNot } from "./state.js";
import { bytes, count, nameThreshold, number, percent, score, time } from "./wording.js";

const MOST_COLUMNS = 12; // whose names are shown

export function startModelView() {
  find("recalibration").addEventListener("submit", recalibrate);
  on("model", drawModel);
  on("model samples decisions", refreshRecalibration);
  on("model history", drawHistory);
}

function drawModel() {
  const { model } = state;
  find("model-why").textContent = whyNot("update");
  keepFocus(find("model-facts"), () => fill(find("model-facts"), card("facts-title", model.name, facts(listFacts()))));
  keepFocus(find("model-classes"), drawClasses);
}

function listFacts() {
  const { model } = state;
  const { held_out: held, class_sizes: sizes, feature_names: columns, guarantees } = model;
  const all = {
    Method: model.method === "calibrated" ? "sparse representation, calibrated" : model.method,
    Takes: model.takes === "pictures" ? "pictures" : `tables with ${count(model.features, "column")}`,
    "Training samples": sizes && number(Object.values(sizes).reduce((sum, size) => sum + size, 0)),
    Threshold: `${nameThreshold(model.threshold)}: ${model.threshold_detail}`,
    Promise: guarantees && `at most ${percent(guarantees.rate)} of known samples rejected: ${guarantees.overall}`,
    "Held-out known samples":
      held?.samples && `${number(held.samples)}: ${percent(held.rejected)} rejected, ${percent(held.recognized)} right`,
    "Simulated unknowns":
      held?.simulated_unknowns &&
      `${number(held.simulated_unknowns)}: ${percent(held.simulated_unknowns_rejected)} rejected`,
    Columns: columns && nameColumns(columns),
    File: `${bytes(model.bytes)}, version ${model.version}`,
    Loaded: time(model.loaded_at),
  };
  return Object.entries(all).filter(([, text]) => text);
}

function nameColumns(columns) {
  const shown = columns.slice(0, MOST_COLUMNS).join(", ");
  const rest = columns.length - MOST_COLUMNS;
  return rest > 0 ? `${shown} and ${number(rest)} more` : shown;
}

function drawClasses() {
  const { classes, class_sizes: sizes = {}, threshold, thresholds } = state.model;
  const most = Math.max(...Object.values(sizes ?? {}), 1);
  const ownThresholds = threshold === null;
  const removable = !whyNot("remove-class") && classes.length > 2;
  const columns = [
    ["Class"],
    ["", "size-cell"],
    ["Samples", "number"],
    ...(ownThresholds ? [["Threshold", "number"]] : []),
    ...(removable ? [["", "number"]] : []),
  ];
  const remove = (name) =>
    h("button.button.small", { ariaLabel: `Remove class ${name}`, onclick: () => removeClass(name) }, "Remove");
  const rows = classes.map((name, i) => [
    name,
    bar("size", (sizes?.[name] ?? 0) / most),
    sizes?.[name] === undefined ? "–" : number(sizes[name]),
    ...(ownThresholds ? [score(thresholds[i])] : []),
    ...(removable ? [remove(name)] : []),
  ]);
  find("classes-title").textContent = count(classes.length, "class", "classes");
  find("classes-hint").hidden = !removable;
  fill(find("model-classes"), table("Classes", columns, rows));
}

const removeClass = (label) =>
  changeModel(find("classes-job"), "remove-class", { json: { label } }, {
    question: `Remove the class ${label}?`,
    text: "The model forgets its samples; new samples of it should then be answered with unknown.",
    action: "Remove",
    danger: true,
    title: "Removing the class",
    describe: () => `The class ${label} is removed.`,
  });

function refreshRecalibration() {
  find("recalibration").hidden = !state.model || whyNot("recalibrate") !== null;
  const ready = state.decisions.length > 0;
  find("recalibrate").disabled = !ready;
  find("recalibrate-brief").textContent = ready
    ? `Uses the samples under Decide: ${state.samples.title}.`
    : "Decide on the fresh samples first.";
}

function recalibrate(event) {
  event.preventDefault();
  const { samples } = state;
  const parts = samples.request({}, { labels: samples.hasLabels });
  changeModel(find("recalibrate-job"), "recalibrate", parts, {
    question: "Recalibrate with these samples?",
    text: `${samples.title}. The threshold is set anew by their scores.`,
    action: "Recalibrate",
    title: "Recalibrating",
    describe: (info) =>
      `The model is recalibrated. The threshold is now ${nameThreshold(info.threshold)}: ${info.threshold_detail}.`,
  });
}

async function drawHistory() {
  const { name } = state.model;
  const place = find("history");
  const slot = h("div");
  if (!place.childElementCount) fill(place, slot);
  const work = ({ signal }) => request(modelPath(name, "history"), { signal });
  const found = await runJob(slot, "Loading the versions", work);
  if (!found || name !== state.model.name) {
    if (!slot.isConnected && slot.childElementCount) fill(place, slot);
    return;
  }
  const list = found.versions.length
    ? h("ol.history", found.versions.map(drawVersion))
    : h("p.quiet", "The model has not been changed here yet. Every change keeps the version before.");
  keepFocus(place, () => fill(place, list));
}

const CHANGES = {
  "set-threshold": ({ target_rejection: share, threshold }) =>
    share
      ? `Threshold set to reject at most ${percent(share)} of known samples`
      : `Threshold set to ${threshold ?? "another"}`,
  "add-class": ({ name, samples }) => `Class ${name} added, ${count(samples ?? 0, "sample")}`,
  "remove-class": ({ label }) => `Class ${label} removed`,
  update: ({ samples }) => `${count(samples ?? 0, "sample")} learned`,
  recalibrate: ({ samples }) => `Recalibrated by ${count(samples ?? 0, "sample")}`,
  restore: ({ version }) => `Version ${String(version).slice(0, 8)} restored`,
};

/** Say what made a version; one that no change here made came as a file. */
function describeChange(change, details) {
  if (!change) return "The file as it was found";
  return CHANGES[change]?.(details ?? {}) ?? change;
}

function drawVersion({ version, time: when, change, details, kept, current }) {
  const short = version.slice(0, 8);
  const same = !current && version === state.model.version;
  const made = describeChange(change, details);
  const ariaLabel = `Restore version ${short}: ${made}${when ? `, ${time(when)}` : ""}`;
  const offered = kept && !current && !same && !state.readOnly;
  return h(
    "li",
    h("span.history-text", h("b", made), h("span.quiet", when && `${time(when)}, `, h("code", short))),
    current && h("span.tag", "serves now"),
    same && h("span.tag.loose", "the same as now"),
    offered && h("button.button.small", { ariaLabel, onclick: () => restoreVersion(version) }, "Restore"),
  );
}

const restoreVersion = (version) =>
  changeModel(find("history-job"), "restore", { json: { version } }, {
    question: `Restore version ${version.slice(0, 8)}?`,
    text: "It serves from then on.",
    action: "Restore",
    title: "Restoring",
    describe: () => `The version ${version.slice(0, 8)} serves again.`,
  });
