// "Why": one sample opened. The decision, what would change it, the training samples behind it, the evidence.
import { modelPath, streamResult } from "./api.js";
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
const kept = new Map();
const slot = h("div", { class: "slot" });
let shown = null; // the decision on the screen, and the samples that it is one of
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
    if (event.key.startsWith("Arrow") && event.target.closest(".scroll")) return; // arrows scroll the figure there
    event.preventDefault();
    step(move);
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
  find("why-previous").setAttribute("aria-disabled", String(current === 0));
  find("why-next").setAttribute("aria-disabled", String(current === sequence.length - 1));
  const body = find("why-body");
  const rest = h("div", { class: "why-rest" });
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

/** Ask for the explanation. Numbers and pictures: the one is sent; a table goes as a whole. */
function explain(samples, { row }) {
  const alone = samples.rows || samples.files;
  const parts = alone ? samples.request({}, { only: [row] }) : samples.request({ row });
  const work = ({ signal, report }) =>
    streamResult(modelPath(state.model.name, "explain"), report, { ...parts, signal });
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
      "div",
      { class: "note row", role: "status" },
      h("p", {}, "The model has changed since. This decision is of the version before."),
      h("button", { type: "button", class: "button small", on: { click: again } }, "Decide again"),
    ),
  );
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
    drawClasses(found.explanation),
    drawFigure(found.figure),
  );
}

/** Say at which threshold the decision turns, and what that threshold would cost. */
function describeTurn(decision) {
  const rejected = decision.verdict === "rejected";
  const value = decision.unknown_score;
  if (!Number.isFinite(value)) return "No threshold: the sample has no score.";
  // Rounded to the side where the sentence holds.
  const turn = rejected
    ? `A threshold of ${score(value, Math.ceil)} or more would accept it as ${decision.candidate}.`
    : `A threshold below ${score(value, Math.floor)} would reject it.`;
  if (!state.scores?.known.length) return turn;
  const then = effectOf(rejected ? value : value - Math.max(Math.abs(value) * Number.EPSILON, Number.MIN_VALUE));
  const now = currentEffect();
  const that = state.info.threshold === null ? "Set for all classes, that threshold" : "That threshold";
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
    h("p", { class: "quiet" }, which),
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
        drawSum(explanation),
      ),
    ),
  );
}

/** The contributions add up to a score with a threshold of its own, which decides. */
function drawSum({ score: sum, score_threshold: limit }) {
  if (!Number.isFinite(sum)) return null;
  const words = Number.isFinite(limit) ? `Sum; rejected above ${limit.toFixed(2)}` : "Sum";
  return h(
    "tfoot",
    {},
    h(
      "tr",
      {},
      h("th", { scope: "row", colSpan: 2 }, words),
      h("td", { class: "number" }, signed(sum)),
      h("td", { colSpan: 2 }),
    ),
  );
}

/** What each class leaves unexplained, and its part of the code: the numbers of the figure. */
function drawClasses(explanation) {
  const { residuals, shares, length } = explanation ?? {};
  if (!residuals?.length || !(length > 0)) return null;
  const rows = residuals.map(({ label, value }, i) =>
    h(
      "tr",
      {},
      h("th", { scope: "row" }, `${label}`),
      h("td", { class: "number" }, percent(value / length)),
      h("td", { class: "number" }, percent(shares?.[i]?.value)),
    ),
  );
  return h(
    "details",
    { class: "fold" },
    h("summary", {}, "What each class explains"),
    h(
      "div",
      { class: "scroll", tabindex: 0, role: "region", "aria-label": "What each class explains" },
      h(
        "table",
        { class: "plain" },
        h(
          "thead",
          {},
          h(
            "tr",
            {},
            h("th", { scope: "col" }, "Class"),
            h("th", { scope: "col", class: "number" }, "Leaves unexplained"),
            h("th", { scope: "col", class: "number" }, "Part of the code"),
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
