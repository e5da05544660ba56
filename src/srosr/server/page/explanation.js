// "Why": one sample opened. The decision, what would change it, the training samples behind it, the evidence.
import { modelPath, streamResult } from "./api.js";
import { evidenceName } from "./evidence_names.js";
import { fill, find, h } from "./dom.js";
import { cancelJob, runJob } from "./jobs.js";
import { nameOf } from "./decision_filter.js";
import { thumbnail } from "./pictures.js";
import { scoreBar } from "./score_bar.js";
import { effectOf, thresholdOf } from "./score_scale.js";
import { state } from "./state.js";
import { number, percent, score } from "./wording.js";

const MOST_KEPT = 60;
const kept = new Map();
let sequence = [];
let current = 0;
let figureAddress = null;

export function startExplanation() {
  const dialog = find("why");
  find("why-previous").addEventListener("click", () => step(-1));
  find("why-next").addEventListener("click", () => step(1));
  dialog.addEventListener("keydown", (event) => {
    if (event.target.matches("input, select, textarea") || event.altKey || event.ctrlKey || event.metaKey) return;
    const move = { ArrowRight: 1, ArrowLeft: -1, j: 1, k: -1 }[event.key];
    if (!move) return;
    event.preventDefault();
    step(move);
  });
  dialog.addEventListener("close", () => {
    const slot = dialog.querySelector(".slot");
    if (slot) cancelJob(slot);
    // The focus returns to the row that is open now, not to the one that was opened first.
    document.querySelector(`[data-focus="open-${sequence[current]}"]`)?.focus();
  });
}

/** Open the decision at a place; next and previous follow `places`. */
export function openWhy(place, places) {
  sequence = places;
  current = places.indexOf(place);
  show();
  if (!find("why").open) find("why").showModal();
  find("why-title").focus();
}

function step(by) {
  if (current + by < 0 || current + by >= sequence.length) return;
  current += by;
  show();
}

async function show() {
  const decision = state.decisions[sequence[current]];
  find("why-title").textContent = nameOf(decision);
  find("why-previous").disabled = current === 0;
  find("why-next").disabled = current === sequence.length - 1;
  const body = find("why-body");
  const slot = h("div", { class: "slot" });
  const rest = h("div", { class: "why-rest" });
  fill(body, drawDecision(decision), slot, rest);
  body.scrollTop = 0;
  const key = `${state.model.version} ${sequence[current]}`;
  const samples = state.samples;
  let found = kept.get(samples)?.get(key);
  if (!found) {
    const alone = samples.rows || samples.files; // numbers and pictures: send the one; a table goes as a whole
    const parts = alone ? samples.request({}, { only: [decision.row] }) : samples.request({ row: decision.row });
    found = await runJob(slot, "Explaining", ({ signal, report }) =>
      streamResult(modelPath(state.model.name, "explain"), report, { ...parts, signal }),
    );
    if (found) keep(samples, key, found);
  }
  if (found && body.contains(rest)) drawRest(rest, body, found, decision);
}

function keep(samples, key, found) {
  if (!kept.has(samples)) kept.clear();
  const own = kept.get(samples) ?? new Map();
  if (own.size >= MOST_KEPT) own.delete(own.keys().next().value);
  own.set(key, found);
  kept.set(samples, own);
}

function drawDecision(decision) {
  const rejected = decision.verdict === "rejected";
  return h(
    "div",
    { class: "why-top" },
    h("div", { class: "why-picture" }, thumbnail(state.samples, decision.row, "large")),
    h(
      "div",
      {},
      h(
        "p",
        { class: `why-answer ${decision.verdict}${decision.label.length > 18 ? " long" : ""}` },
        rejected ? "unknown" : decision.label,
      ),
      h("p", { class: "quiet" }, rejected ? `Rejected. The closest class is ${decision.candidate}.` : "Recognized."),
      scoreBar(decision, "wide"),
      h(
        "p",
        { class: "quiet" },
        `Unknown score ${score(decision.unknown_score)}, threshold ${score(thresholdOf(decision))}`,
      ),
    ),
  );
}

function drawRest(place, body, found, decision) {
  if (found.sample_picture && !body.querySelector(".why-picture .thumbnail")) {
    fill(
      body.querySelector(".why-picture"),
      h("span", { class: "thumbnail large" }, h("img", { src: found.sample_picture, alt: "The sample" })),
    );
  }
  const sentences = found.text.split("\n").map((line) => h("p", {}, line));
  fill(
    place,
    h("section", {}, h("h3", {}, "In words"), sentences),
    h("section", {}, h("h3", {}, "What would change the decision"), h("p", {}, describeTurn(decision))),
    drawTraining(found),
    drawEvidence(found.explanation),
    drawFigure(found.figure),
  );
}

/** Say at which threshold the decision turns, and what that threshold would cost. */
function describeTurn(decision) {
  const rejected = decision.verdict === "rejected";
  if (!Number.isFinite(decision.unknown_score)) return "No threshold: the sample has no score.";
  const at = score(decision.unknown_score);
  if (!state.scores?.known.length) {
    return rejected
      ? `A threshold of ${at} or more would accept it as ${decision.candidate}.`
      : `A threshold below ${at} would reject it.`;
  }
  const then = effectOf(rejected ? decision.unknown_score : decision.unknown_score - 1e-12);
  const now = effectOf(thresholdOf(decision));
  const turn = rejected
    ? `A threshold of ${at} or more would accept it as ${decision.candidate}.`
    : `A threshold below ${at} would reject it.`;
  const known = `That threshold rejects ${percent(then.rejected)} of known samples (now ${percent(now.rejected)})`;
  if (then.simulated === null) return `${turn} ${known}.`;
  return `${turn} ${known} and ${percent(then.simulated)} of simulated unknowns (now ${percent(now.simulated)}).`;
}

function drawTraining({ training_samples: samples }) {
  if (!samples?.length) return null;
  const most = Math.max(...samples.map((sample) => Math.abs(sample.weight)), 1e-12);
  const items = samples.map((sample) => {
    const bar = h("span", { class: sample.weight < 0 ? "weight-fill negative" : "weight-fill" });
    bar.style.width = `${(100 * Math.abs(sample.weight)) / most}%`;
    const name =
      sample.name ?? (sample.row === null || sample.row === undefined ? "learned atom" : `row ${number(sample.row)}`);
    return h(
      "li",
      {},
      sample.picture
        ? h("span", { class: "thumbnail medium" }, h("img", { src: sample.picture, alt: "", loading: "lazy" }))
        : null,
      h(
        "span",
        { class: "training-text" },
        h("b", {}, `class ${sample.label}`),
        h("span", { class: "quiet name" }, name),
        h("span", { class: "weight", "aria-hidden": "true" }, bar),
        h("span", { class: "weight-number" }, signed(sample.weight)),
      ),
    );
  });
  return h(
    "section",
    {},
    h("h3", {}, "Training samples behind it"),
    h("p", { class: "quiet" }, "The sample is rebuilt from these, each with its weight."),
    h("ul", { class: "training" }, items),
  );
}

function drawEvidence(explanation) {
  const parts = (explanation?.evidence ?? []).filter((part) => Math.abs(part.contribution ?? 0) > 0.005);
  if (!parts.length) return null;
  const most = Math.max(...parts.map((part) => Math.abs(part.contribution)));
  const rows = parts.map((part) => {
    const bar = h("span", { class: part.contribution > 0 ? "tilt-fill against" : "tilt-fill" });
    const half = (50 * Math.abs(part.contribution)) / most;
    bar.style.width = `${half}%`;
    bar.style.left = `${part.contribution > 0 ? 50 : 50 - half}%`;
    return h(
      "tr",
      {},
      h("th", { scope: "row" }, evidenceName(part.name)),
      h("td", { class: "tilt-cell" }, h("span", { class: "tilt", "aria-hidden": "true" }, bar)),
      h("td", { class: "number" }, signed(part.contribution)),
      h("td", { class: "number" }, plain(part.value)),
      h("td", { class: "number" }, plain(part.typical)),
    );
  });
  return h(
    "section",
    {},
    h("h3", {}, "Evidence"),
    h("p", { class: "quiet" }, "Bars to the right speak for unknown, bars to the left for the class."),
    h(
      "div",
      { class: "scroll", tabindex: 0, role: "region", "aria-label": "Evidence" },
      h(
        "table",
        { class: "plain evidence" },
        h(
          "thead",
          {},
          h(
            "tr",
            {},
            h("th", { scope: "col" }, "Kind"),
            h("td", {}),
            h("th", { scope: "col", class: "number" }, "Adds"),
            h("th", { scope: "col", class: "number" }, "Here"),
            h("th", { scope: "col", class: "number" }, "Typical"),
          ),
        ),
        h("tbody", {}, rows),
      ),
    ),
  );
}

const signed = (value) => `${value < 0 ? "−" : "+"}${Math.abs(value).toFixed(2)}`;
const plain = (value) => (Number.isFinite(value) ? Number(value.toPrecision(3)).toString().replace("-", "−") : "–");

/** The figure is a picture of its own: nothing in it can run or reach the page. */
function drawFigure(figure) {
  if (figureAddress) URL.revokeObjectURL(figureAddress);
  figureAddress = null;
  if (!figure) return null;
  figureAddress = URL.createObjectURL(new Blob([figure], { type: "image/svg+xml" }));
  return h(
    "section",
    {},
    h("h3", {}, "Figure"),
    h(
      "div",
      { class: "scroll paper", tabindex: 0, role: "region", "aria-label": "Figure of the explanation" },
      h("img", {
        src: figureAddress,
        alt: "What each class leaves unexplained, what the evidence adds, and the training samples used",
      }),
    ),
  );
}
