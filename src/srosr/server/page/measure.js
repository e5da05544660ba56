// How good the answers are, where the true classes of the samples are known.
import { modelPath, streamResult } from "./api.js";
import { fill, find, h, keepFocus } from "./dom.js";
import { dropJob, runJob, showError } from "./jobs.js";
import { on, state } from "./state.js";
import { count, number, percent } from "./wording.js";

const FIRST = ["accuracy", "recognition_accuracy", "rejection_accuracy", "auroc"];
let result = null;
let madeOf = null;
let measuring = null; // the samples of the job that runs
const slot = h("div", { class: "slot" });

export function startMeasure() {
  on("samples decisions model", () => {
    if (madeOf && (madeOf.samples !== state.samples || madeOf.version !== state.model?.version)) result = madeOf = null;
    if (measuring && measuring !== state.samples) dropJob(slot);
    keepFocus(find("measure"), draw);
  });
}

function draw() {
  const place = find("measure");
  if (!state.samples || !state.samples.hasLabels) {
    fill(
      place,
      h(
        "div",
        { class: "card empty" },
        h("p", {}, state.samples ? "The true classes of these samples are not known." : "Decide on samples first."),
        h(
          "p",
          { class: "quiet" },
          state.model?.takes === "pictures"
            ? "Drop folders of pictures, one folder a class."
            : "A table can be measured if it has the true classes; see “How the table is read”.",
        ),
        h("a", { href: "#decide", class: "button" }, "To the samples"),
      ),
    );
    return;
  }
  fill(
    place,
    h(
      "div",
      { class: "card" },
      h(
        "p",
        {},
        `Compare the decisions on ${state.samples.title} with the true classes. `,
        "Classes that the model does not know count as unknown.",
      ),
      h(
        "div",
        { class: "actions" },
        h("button", { type: "button", id: "measure-go", class: "button primary", on: { click: run } }, "Measure"),
      ),
      slot,
    ),
    result ? drawResult() : null,
  );
}

async function run() {
  const { samples, model } = state;
  measuring = samples;
  const found = await runJob(slot, "Measuring", ({ signal, report }) =>
    streamResult(modelPath(model.name, "evaluate"), report, { ...samples.request({}, { labels: true }), signal }),
  );
  if (measuring === samples) measuring = null;
  if (!found || samples !== state.samples) return;
  if (state.model.version !== model.version || found.version !== model.version) {
    showError(slot, { message: "The model has changed meanwhile: measure again.", status: 409 });
    return;
  }
  result = found;
  madeOf = { samples, version: model.version };
  draw();
  find("measure-result")?.focus();
}

const byLabel = (a, b) => a.label.localeCompare(b.label, "en", { numeric: true });

function drawResult() {
  const { metrics, classes, unknown, samples, notes } = result;
  const tiles = FIRST.filter((key) => metrics[key]).map((key) => {
    const { label, meaning, value, low, high } = metrics[key];
    return h(
      "div",
      { class: "figure-tile" },
      h("dt", {}, label),
      h(
        "dd",
        {},
        h("b", {}, percent(value)),
        low === null ? null : h("span", { class: "quiet" }, `${percent(low)} to ${percent(high)}`),
        h("span", { class: "quiet small" }, meaning),
      ),
    );
  });
  const all = Object.values(metrics).map(({ label, meaning, value, low, high, remark }) =>
    h(
      "tr",
      {},
      h("th", { scope: "row" }, label, h("span", { class: "quiet block" }, remark ?? meaning)),
      h("td", { class: "number" }, percent(value)),
      h("td", { class: "number" }, low === null ? "–" : `${percent(low)} to ${percent(high)}`),
    ),
  );
  const group = (rows, kind) =>
    rows.map((row) =>
      h(
        "tr",
        {},
        h("th", { scope: "row" }, row.label, kind ? h("span", { class: "tag loose" }, kind) : null),
        h("td", { class: "number" }, number(row.samples)),
        h("td", { class: "number" }, `${number(row.right)} (${percent(row.samples ? row.right / row.samples : null)})`),
        h("td", { class: "number" }, number(row.rejected)),
        h("td", { class: "number" }, number(row.wrong)),
        h("td", {}, row.mistaken_for ? `${row.mistaken_for} (${number(row.mistaken)})` : "–"),
      ),
    );
  return [
    h(
      "section",
      { class: "card", "aria-labelledby": "measure-result" },
      h("h3", { id: "measure-result", tabindex: -1 }, "Result"),
      h(
        "p",
        { class: "quiet" },
        `${count(samples.all, "sample")}: ${number(samples.known)} of known classes, `,
        `${number(samples.unknown)} of unknown ones. Ranges are 95 % intervals.`,
      ),
      (notes ?? []).map((note) => h("p", { class: "note" }, note)),
      h("dl", { class: "figure-tiles" }, tiles),
    ),
    h(
      "section",
      { class: "card", "aria-labelledby": "measure-classes" },
      h("h3", { id: "measure-classes" }, "By class"),
      h(
        "div",
        { class: "scroll", tabindex: 0, role: "region", "aria-label": "Results by class" },
        h(
          "table",
          { class: "plain" },
          h(
            "thead",
            {},
            h(
              "tr",
              {},
              ["Class", "Samples", "Right", "Rejected", "Wrong", "Mostly taken for"].map((text, i) =>
                h("th", { scope: "col", class: i && i < 5 ? "number" : "" }, text),
              ),
            ),
          ),
          h("tbody", {}, group(classes, null), group([...unknown].sort(byLabel), "unknown")),
        ),
      ),
    ),
    h(
      "details",
      { class: "card card-fold" },
      h("summary", {}, h("h3", {}, "All measures")),
      h(
        "div",
        { class: "scroll", tabindex: 0, role: "region", "aria-label": "All measures" },
        h(
          "table",
          { class: "plain" },
          h(
            "thead",
            {},
            h(
              "tr",
              {},
              h("th", { scope: "col" }, "Measure"),
              h("th", { scope: "col", class: "number" }, "Value"),
              h("th", { scope: "col", class: "number" }, "95 % interval"),
            ),
          ),
          h("tbody", {}, all),
        ),
      ),
    ),
  ];
}
