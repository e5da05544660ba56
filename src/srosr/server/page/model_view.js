// The model: its facts, its classes, its versions, and what can be changed.
import { modelPath, request } from "./api.js";
import { ask } from "./dialogs.js";
import { fill, find, h, keepFocus } from "./dom.js";
import { runJob } from "./jobs.js";
import { changeModel } from "./model_changes.js";
import { on, state, whyNot } from "./state.js";
import { fileNote } from "./teaching.js";
import { bytes, count, nameThreshold, number, percent, score, time } from "./wording.js";

const classSlot = h("div", { class: "slot" });
const historySlot = h("div", { class: "slot" });
const calibrationSlot = h("div", { class: "slot" });
const historyPlace = h("div", {});
let hadDecisions = false; // when the cards were drawn

export function startModelView() {
  on("model samples", draw);
  on("decisions", () => state.info && hadDecisions !== state.decisions.length > 0 && draw());
  on("model history", () => state.model && drawHistory());
}

function draw() {
  if (state.info) keepFocus(find("model"), drawCards);
}

function drawCards() {
  hadDecisions = state.decisions.length > 0;
  fill(
    find("model"),
    whyNot("update") ? h("p", { class: "note" }, whyNot("update")) : null,
    h(
      "div",
      { class: "halves" },
      h("div", { class: "stack" }, drawFacts(), drawRecalibration()),
      h("div", { class: "stack" }, drawClasses(), drawHistoryCard()),
    ),
  );
}

function drawFacts() {
  const { info, model } = state;
  const held = info.held_out;
  const facts = [
    ["Method", info.method === "calibrated" ? "sparse representation, calibrated" : info.method],
    ["Takes", model.takes === "pictures" ? "pictures" : `tables with ${count(info.features, "column")}`],
    ["Training samples", info.class_sizes ? number(Object.values(info.class_sizes).reduce((a, b) => a + b, 0)) : null],
    ["Threshold", `${nameThreshold(info.threshold)}: ${info.threshold_detail}`],
    [
      "Promise",
      info.guarantees
        ? `at most ${percent(info.guarantees.rate)} of known samples rejected: ${info.guarantees.overall}`
        : null,
    ],
    [
      "Held-out known samples",
      held?.samples
        ? `${number(held.samples)}: ${percent(held.rejected)} rejected, ${percent(held.recognized)} right`
        : null,
    ],
    [
      "Simulated unknowns",
      held?.simulated_unknowns
        ? `${number(held.simulated_unknowns)}: ${percent(held.simulated_unknowns_rejected)} rejected`
        : null,
    ],
    [
      "Columns",
      info.feature_names
        ? info.feature_names.slice(0, 12).join(", ") +
          (info.feature_names.length > 12 ? ` and ${number(info.feature_names.length - 12)} more` : "")
        : null,
    ],
    ["File", `${bytes(info.bytes)}, version ${info.version}`],
    ["Loaded", time(info.loaded_at)],
  ].filter(([, text]) => text);
  return h(
    "section",
    { class: "card", "aria-labelledby": "facts-title" },
    h("h3", { id: "facts-title" }, state.model.name),
    h(
      "dl",
      { class: "facts" },
      facts.flatMap(([name, text]) => [h("dt", {}, name), h("dd", {}, text)]),
    ),
  );
}

function drawClasses() {
  const { info } = state;
  const sizes = info.class_sizes ?? {};
  const most = Math.max(...Object.values(sizes), 1);
  const removable = !whyNot("remove-class") && state.model.classes.length > 2;
  const rows = state.model.classes.map((name, i) => {
    const bar = h("span", { class: "size-fill" });
    bar.style.width = `${(100 * (sizes[name] ?? 0)) / most}%`;
    return h(
      "tr",
      {},
      h("th", { scope: "row" }, name),
      h("td", { class: "size-cell" }, h("span", { class: "size", "aria-hidden": "true" }, bar)),
      h("td", { class: "number" }, sizes[name] === undefined ? "–" : number(sizes[name])),
      info.threshold === null ? h("td", { class: "number" }, score(info.thresholds[i])) : null,
      removable
        ? h(
            "td",
            { class: "number" },
            h(
              "button",
              {
                type: "button",
                class: "button small",
                "aria-label": `Remove class ${name}`,
                on: { click: () => removeClass(name) },
              },
              "Remove",
            ),
          )
        : null,
    );
  });
  return h(
    "section",
    { class: "card", "aria-labelledby": "classes-title" },
    h("h3", { id: "classes-title" }, count(state.model.classes.length, "class", "classes")),
    h(
      "div",
      { class: "scroll", tabindex: 0, role: "region", "aria-label": "Classes" },
      h(
        "table",
        { class: "plain classes" },
        h(
          "thead",
          {},
          h(
            "tr",
            {},
            h("th", { scope: "col" }, "Class"),
            h("td", {}),
            h("th", { scope: "col", class: "number" }, "Samples"),
            info.threshold === null ? h("th", { scope: "col", class: "number" }, "Threshold") : null,
            removable ? h("td", {}) : null,
          ),
        ),
        h("tbody", {}, rows),
      ),
    ),
    classSlot,
    removable
      ? h(
          "p",
          { class: "quiet" },
          "To add a class, or samples of one, select samples under Decide, or name a group under Groups.",
        )
      : null,
  );
}

async function removeClass(label) {
  const { model } = state;
  const yes = await ask({
    title: `Remove the class ${label}?`,
    text: ["The model forgets its samples; new samples of it should then be answered with unknown.", fileNote()],
    action: "Remove",
    danger: true,
  });
  if (!yes) return;
  await changeModel(
    classSlot,
    model,
    "remove-class",
    { json: { label } },
    { title: "Removing the class", describe: () => `The class ${label} is removed.` },
  );
}

function drawRecalibration() {
  if (whyNot("recalibrate")) return null;
  const samples = hadDecisions ? state.samples : null;
  const go = h(
    "button",
    {
      type: "button",
      class: "button",
      disabled: !samples,
      data: { focus: "recalibrate" },
      on: { click: () => recalibrate() },
    },
    "Recalibrate",
  );
  return h(
    "section",
    { class: "card", "aria-labelledby": "recalibrate-title" },
    h("h3", { id: "recalibrate-title" }, "Recalibrate"),
    h(
      "p",
      {},
      "Has something changed, a camera or the light? ",
      "Give about a hundred fresh samples of known classes, and the threshold is set anew by them.",
    ),
    h(
      "p",
      { class: "quiet" },
      samples ? `Uses the samples under Decide: ${samples.title}.` : "Decide on the fresh samples first.",
    ),
    h("div", { class: "actions" }, go),
    calibrationSlot,
  );
}

async function recalibrate() {
  const { samples, model } = state;
  const yes = await ask({
    title: "Recalibrate with these samples?",
    text: [`${samples.title}. The threshold is set anew by their scores.`, fileNote()],
    action: "Recalibrate",
  });
  if (!yes) return;
  const parts = samples.request({}, { labels: samples.hasLabels });
  await changeModel(calibrationSlot, model, "recalibrate", parts, {
    title: "Recalibrating",
    describe: (info) =>
      `The model is recalibrated. The threshold is now ${nameThreshold(info.threshold)}: ${info.threshold_detail}.`,
  });
}

function drawHistoryCard() {
  return h(
    "section",
    { class: "card", "aria-labelledby": "history-title" },
    h("h3", { id: "history-title" }, "Versions"),
    historyPlace,
    historySlot,
  );
}

async function drawHistory() {
  const { name } = state.model;
  const slot = h("div", {});
  if (!historyPlace.childElementCount) fill(historyPlace, slot);
  const found = await runJob(slot, "Loading the versions", ({ signal }) =>
    request(modelPath(name, "history"), { signal }),
  );
  if (!found || name !== state.model.name) {
    if (!slot.isConnected && slot.childElementCount) fill(historyPlace, slot);
    return;
  }
  const { versions } = found;
  const list = versions.length
    ? h("ol", { class: "history" }, versions.map(drawVersion))
    : h("p", { class: "quiet" }, "The model has not been changed here yet. Every change keeps the version before.");
  keepFocus(historyPlace, () => fill(historyPlace, list));
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
  const same = !current && version === state.model.version;
  const made = describeChange(change, details);
  const restore =
    kept && !current && !same && !state.readOnly
      ? h(
          "button",
          {
            type: "button",
            class: "button small",
            "aria-label": `Restore version ${version.slice(0, 8)}: ${made}${when ? `, ${time(when)}` : ""}`,
            on: { click: () => restoreVersion(version) },
          },
          "Restore",
        )
      : null;
  return h(
    "li",
    {},
    h(
      "span",
      { class: "history-text" },
      h("b", {}, made),
      h("span", { class: "quiet" }, when ? `${time(when)}, ` : "", h("code", {}, version.slice(0, 8))),
    ),
    current ? h("span", { class: "tag" }, "serves now") : null,
    same ? h("span", { class: "tag loose" }, "the same as now") : null,
    restore,
  );
}

async function restoreVersion(version) {
  const { model } = state;
  const yes = await ask({
    title: `Restore version ${version.slice(0, 8)}?`,
    text: ["It serves from then on. The present version is kept, too."],
    action: "Restore",
  });
  if (!yes) return;
  await changeModel(
    historySlot,
    model,
    "restore",
    { json: { version } },
    { title: "Restoring", describe: () => `The version ${version.slice(0, 8)} serves again.` },
  );
}
