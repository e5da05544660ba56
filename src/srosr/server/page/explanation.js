// "Why": one sample opened. The decision, what would change it, the training samples behind it, the evidence.
import { modelPath, request } from "./api.js";
import { bar, table } from "./cards.js";
import { evidenceName } from "./evidence_names.js";
import { decide } from "./deciding.js";
import { announce, fill, find, focusHeading, h, keepFocus } from "./dom.js";
import { dropJob, runJob } from "./jobs.js";
import { nameOf } from "./decision_filter.js";
import { thumbnail } from "./pictures.js";
import { scoreBar } from "./score_bar.js";
import { currentEffect, effectOf, thresholdOf } from "./score_scale.js";
import { isStale, on, state } from "./state.js";
import { number, percent, score } from "./wording.js";

const MOST_KEPT = 60;
const PAUSE = 150; // milliseconds on a sample before its explanation is asked for: keys that are held go past many
const kept = new WeakMap(); // of sets of samples: their explanations by version and place
const slot = h("div.slot");
let shown = null; // the decision on the screen, and the samples that it is one of
let sequence = [];
let current = 0;
let figureAddress = null;

export function startExplanation() {
  const dialog = find("why");
  find("why-previous").addEventListener("click", () => step(-1));
  find("why-next").addEventListener("click", () => step(1));
  dialog.addEventListener("keydown", (event) => {
    if (event.altKey || event.ctrlKey || event.metaKey) return;
    const move = { ArrowRight: 1, ArrowLeft: -1, j: 1, k: -1 }[event.key];
    if (!move) return;
    if (event.key.startsWith("Arrow") && event.target.closest(".scroll")) return; // arrows scroll the figure there
    event.preventDefault();
    step(move);
  });
  // The second press of a double click on a row falls beside the dialog that the first has opened.
  let again = false;
  dialog.addEventListener("mousedown", ({ target, detail }) => {
    again = target === dialog && detail > 1;
  });
  dialog.addEventListener("cancel", (event) => {
    if (again) event.preventDefault();
    again = false;
  });
  dialog.addEventListener("close", () => {
    dropJob(slot);
    shown = null;
    // The focus returns to the row that is open now, not to the one that was opened first.
    document.querySelector(`[data-focus="open-${sequence[current]}"]`)?.focus();
    if (document.activeElement === document.body) focusHeading(find("title-decisions"));
  });
  addEventListener("hashchange", () => dialog.close()); // Back goes to another part of the page
  // What is open may be decided again, or go, while something runs that was started before.
  on("samples decisions", () => {
    if (!shown) return;
    if (shown.samples !== state.samples) dialog.close();
    else if (state.decisions[sequence[current]] && shown.decision !== state.decisions[sequence[current]]) show();
  });
  on("model", () => {
    const rest = find("why-body").querySelector(".why-rest");
    if (shown && rest && isStale()) drawStale(rest);
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
  if (!state.decisions[sequence[current + by]]) return;
  current += by;
  show(PAUSE);
  const { decision } = shown;
  announce(`${nameOf(decision)}: ${decision.verdict === "rejected" ? "unknown" : decision.label}`);
}

async function show(pause = 0) {
  const { samples, run } = state;
  const decision = state.decisions[sequence[current]];
  shown = { samples, decision };
  find("why-title").textContent = nameOf(decision);
  find("why-previous").ariaDisabled = String(current === 0);
  find("why-next").ariaDisabled = String(current === sequence.length - 1);
  const body = find("why-body");
  const rest = h("div.why-rest");
  keepFocus(body, () => {
    dropJob(slot);
    fill(body, drawDecision(decision), slot, rest);
  });
  body.scrollTop = 0;
  if (isStale()) return drawStale(rest);
  const key = `${run.version} ${sequence[current]}`;
  let found = kept.get(samples)?.get(key);
  if (!found) {
    if (pause) await new Promise((resolve) => setTimeout(resolve, pause));
    if (!body.contains(rest) || !shown) return;
    found = await explain(samples, decision);
    if (found?.version === run.version) keep(samples, key, found);
  }
  if (!found || !body.contains(rest)) return;
  if (found.version === run.version) drawRest(rest, body, found, decision);
  else drawStale(rest);
}

function explain(samples, { row }) {
  const work = (job) => request(modelPath(state.model.name, "explain"), { ...samples.requestOne(row), ...job });
  return runJob(slot, "Explaining", work, { again: () => show() });
}

/** An explanation by another version would not fit the decision above it. */
function drawStale(place) {
  const again = () => {
    find("why").close();
    decide();
  };
  fill(
    place,
    h(
      "div.note.row",
      { role: "status" },
      h("p", "The model has changed since. This decision is of the version before."),
      h("button.button.small", { onclick: again }, "Decide again"),
    ),
  );
}

function keep(samples, key, found) {
  const own = kept.get(samples) ?? new Map();
  if (own.size >= MOST_KEPT) own.delete(own.keys().next().value);
  kept.set(samples, own.set(key, found));
}

function drawDecision(decision) {
  const rejected = decision.verdict === "rejected";
  const answer = rejected ? "unknown" : decision.label;
  const long = answer.length > 18 ? ".long" : "";
  const scores = `Unknown score ${score(decision.unknown_score)}, threshold ${score(thresholdOf(decision))}`;
  return h(
    "div.why-top",
    h("div.why-picture", thumbnail(state.samples, decision.row, "large")),
    h(
      "div",
      h(`p.why-answer.${decision.verdict}${long}`, answer),
      h("p.quiet", rejected ? `Rejected. The closest class is ${decision.candidate}.` : "Recognized."),
      scoreBar(decision),
      h("p.quiet", scores),
    ),
  );
}

function drawRest(place, body, found, decision) {
  const picture = body.querySelector(".why-picture");
  if (found.sample_picture && !picture.hasChildNodes()) {
    fill(picture, h("span.thumbnail.large", h("img", { src: found.sample_picture, alt: "The sample" })));
  }
  const sentences = found.text.split("\n").map((line) => h("p", line));
  fill(
    place,
    part("In words", sentences),
    part("What would change the decision", h("p", describeTurn(decision))),
    drawTraining(found),
    drawEvidence(found.explanation),
    drawClasses(found.explanation),
    drawFigure(found.figure),
  );
}

const part = (title, ...content) => h("section", h("h3", title), content);

/** Say at which threshold the decision turns, and what that threshold would cost. */
function describeTurn(decision) {
  const rejected = decision.verdict === "rejected";
  const value = decision.unknown_score;
  if (!Number.isFinite(value)) return "No threshold: the sample has no score.";
  // Rounded to the side where the sentence holds.
  const turn = rejected
    ? `A threshold of ${score(value, "ceil")} or more would accept it as ${decision.candidate}.`
    : `A threshold below ${score(value, "floor")} would reject it.`;
  if (!state.scores?.known.length) return turn;
  const then = effectOf(rejected ? value : value - Math.max(Math.abs(value) * Number.EPSILON, Number.MIN_VALUE));
  const now = currentEffect();
  const that = state.model.threshold === null ? "Set for all classes, that threshold" : "That threshold";
  const known = `${that} rejects ${percent(then.rejected)} of held-out known samples (now ${percent(now.rejected)})`;
  if (then.simulated === null) return `${turn} ${known}.`;
  const before = Number.isFinite(now.simulated) ? ` (now ${percent(now.simulated)})` : "";
  return `${turn} ${known} and ${percent(then.simulated)} of simulated unknowns${before}.`;
}

function drawTraining({ training_samples: samples, explanation }) {
  if (!samples?.length) return null;
  const all = explanation.atoms?.length ?? samples.length;
  const which =
    all > samples.length
      ? `The sample is rebuilt from ${number(all)}; these ${number(samples.length)} have the largest weights.`
      : "The sample is rebuilt from these, each with its weight.";
  const most = Math.max(...samples.map(({ weight }) => Math.abs(weight)), 1e-12);
  const items = samples.map(({ label, weight, row, name, picture }) =>
    h(
      "li",
      picture && h("span.thumbnail.medium", h("img", { src: picture, alt: "", loading: "lazy" })),
      h(
        "span.training-text",
        h("b", `class ${label}`),
        h("span.quiet.name", name ?? (Number.isFinite(row) ? `row ${number(row)}` : "learned atom")),
        bar("weight", Math.abs(weight) / most, weight < 0 ? ".negative" : ""),
        h("span.weight-number", signed(weight)),
      ),
    ),
  );
  return part("Training samples behind it", h("p.quiet", which), h("ul.training", items));
}

function drawEvidence(explanation) {
  const parts = (explanation?.evidence ?? []).filter(({ contribution }) => Math.abs(contribution ?? 0) > 0.005);
  if (!parts.length) return null;
  const most = Math.max(...parts.map(({ contribution }) => Math.abs(contribution)));
  const rows = parts.map(({ name, contribution, value, typical }) => {
    const against = contribution > 0;
    const tilt = bar("tilt", Math.abs(contribution) / most / 2, against ? ".against" : "");
    return [evidenceName(name), tilt, signed(contribution), plain(value), plain(typical)];
  });
  const columns = [["Kind"], ["", "tilt-cell"], ["Adds", "number"], ["Here", "number"], ["Typical", "number"]];
  return part(
    "Evidence",
    h("p.quiet", "Bars to the right speak for unknown, bars to the left for the class."),
    table("Evidence", columns, rows, drawSum(explanation)),
  );
}

/** The contributions add up to a score with a threshold of its own, which decides. */
function drawSum({ score: sum, score_threshold: limit }) {
  if (!Number.isFinite(sum)) return null;
  const words = Number.isFinite(limit) ? `Sum; rejected above ${limit.toFixed(2)}` : "Sum";
  const name = h("th", { scope: "row", colSpan: 2 }, words);
  return h("tfoot", h("tr", name, h("td.number", signed(sum)), h("td", { colSpan: 2 })));
}

/** What each class leaves unexplained, and its part of the code: the numbers of the figure. */
function drawClasses(explanation) {
  const { residuals, shares, length } = explanation ?? {};
  if (!residuals?.length || !(length > 0)) return null;
  const name = (i) => percent(shares?.[i]?.value);
  const rows = residuals.map(({ label, value }, i) => [String(label), percent(value / length), name(i)]);
  const columns = [["Class"], ["Leaves unexplained", "number"], ["Part of the code", "number"]];
  const title = "What each class explains";
  return h("details.fold", h("summary", title), table(title, columns, rows));
}

const signed = (value) => `${value < 0 ? "−" : "+"}${Math.abs(value).toFixed(2)}`;
const plain = (value) => (Number.isFinite(value) ? Number(value.toPrecision(3)).toString().replace("-", "−") : "–");

/** The figure is a picture of its own: nothing in it can run or reach the page. */
function drawFigure(figure) {
  if (figureAddress) URL.revokeObjectURL(figureAddress);
  if (!figure) return null;
  figureAddress = URL.createObjectURL(new Blob([figure], { type: "image/svg+xml" }));
  const alt = "What each class leaves unexplained, what the evidence adds, and the training samples used";
  const image = h("img", { src: figureAddress, alt });
  const ariaLabel = "Figure of the explanation";
  return part("Figure", h("div.scroll.paper", { tabIndex: 0, role: "region", ariaLabel }, image));
}
