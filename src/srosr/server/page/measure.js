// How good the answers are, where the true classes of the samples are known.
import { card, table, tile } from "./cards.js";
import { fill, find, h } from "./dom.js";
import { workOnSamples } from "./sample_work.js";
import { on, state } from "./state.js";
import { compareNames, count, number, percent } from "./wording.js";

const FIRST = ["accuracy", "recognition_accuracy", "rejection_accuracy", "auroc"];
let madeOf = null; // what the result on the page is of: {samples, version}

export function startMeasure() {
  find("measure-go").addEventListener("click", measure);
  on("samples decisions model", refresh);
}

function refresh() {
  const { samples, model } = state;
  if (madeOf && (madeOf.samples !== samples || madeOf.version !== model?.version)) {
    madeOf = null;
    fill(find("measured"));
  }
  const labeled = Boolean(samples?.hasLabels);
  find("no-labels").hidden = labeled;
  find("measuring").hidden = !labeled;
  find("no-labels-why").textContent = samples
    ? "The true classes of these samples are not known."
    : "Decide on samples first.";
  find("no-labels-hint").textContent =
    model?.takes === "pictures"
      ? "Drop folders of pictures, one folder a class."
      : "A table can be measured if it has the true classes; see “How the table is read”.";
  find("measure-title").textContent = samples?.title;
}

async function measure() {
  const { samples } = state;
  const parts = samples.request({}, { labels: true });
  const found = await workOnSamples(find("measure-job"), "Measuring", "evaluate", parts);
  if (!found) return;
  madeOf = { samples, version: found.version };
  drawResult(found);
  find("measure-result").focus();
}

const range = ({ low, high }) => low !== null && `${percent(low)} to ${percent(high)}`;

function drawResult({ metrics, classes, unknown, samples, notes }) {
  const byLabel = (a, b) => compareNames(a.label, b.label);
  const all = Object.values(metrics).map((metric) => [
    [metric.label, h("span.quiet.block", metric.remark ?? metric.meaning)],
    percent(metric.value),
    range(metric) || "–",
  ]);
  const first = FIRST.flatMap((key) => metrics[key] ?? []).map((metric) =>
    tile(metric.label, percent(metric.value), range(metric), metric.meaning),
  );
  const ofClass = (row, kind) => [
    [row.label, kind && h("span.tag.loose", kind)],
    number(row.samples),
    `${number(row.right)} (${percent(row.samples ? row.right / row.samples : null)})`,
    number(row.rejected),
    number(row.wrong),
    row.mistaken_for ? `${row.mistaken_for} (${number(row.mistaken)})` : "–",
  ];
  const rows = [
    ...classes.map((row) => ofClass(row, null)),
    ...unknown.toSorted(byLabel).map((row) => ofClass(row, "unknown")),
  ];
  const counts = ["Samples", "Right", "Rejected", "Wrong"].map((name) => [name, "number"]);
  const brief =
    `${count(samples.all, "sample")}: ${number(samples.known)} of known classes, ` +
    `${number(samples.unknown)} of unknown ones. Ranges are 95 % intervals.`;
  const warnings = (notes ?? []).map((note) => h("p.note", note));
  fill(
    find("measured"),
    card("measure-result", "Result", h("p.quiet", brief), warnings, h("dl.figure-tiles", first)),
    card("measure-classes", "By class", table("Results by class", [["Class"], ...counts, ["Mostly taken for"]], rows)),
    h(
      "details.card.card-fold",
      h("summary", h("h3", "All measures")),
      table("All measures", [["Measure"], ["Value", "number"], ["95 % interval", "number"]], all),
    ),
  );
  find("measure-result").tabIndex = -1;
}
