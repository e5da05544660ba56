// The threshold: try another one, see at once what it does, apply it.
import { wouldChange } from "./decision_filter.js";
import { fill, find, h } from "./dom.js";
import { clearNotice } from "./jobs.js";
import { changeModel } from "./model_changes.js";
import { currentEffect, effectOf, shareRejected, thresholdFor } from "./score_scale.js";
import { drawScores } from "./score_chart.js";
import { changed, decided, isStale, on, state, whyNot } from "./state.js";
import { count, nameThreshold, number, percent, score } from "./wording.js";

const STEPS = 200;
const MOST = 0.5;
const BEND = 5; // small shares get most of the way: half of it is 3.8 %

const shareAt = (step) => (MOST * Math.expm1((BEND * step) / STEPS)) / Math.expm1(BEND);
const stepAt = (share) => Math.round((STEPS * Math.log1p((Math.min(share, MOST) * Math.expm1(BEND)) / MOST)) / BEND);

export function startThreshold() {
  // On a telephone the table should be near: the card starts folded there.
  if (matchMedia("(max-width: 899px)").matches) find("threshold-fold").open = false;
  const { slider, share } = find("threshold").elements;
  slider.addEventListener("input", () => tryShare(shareAt(Number(slider.value))));
  share.addEventListener("input", () => share.validity.valid && tryShare(Number(share.value) / 100));
  find("threshold").addEventListener("submit", applyTrial);
  find("threshold-reset").addEventListener("click", () => {
    state.trial = null;
    changed("trial");
    slider.focus();
  });
  on("model trial decisions", refresh);
}

const hasScores = () => Boolean(state.scores?.known.length);

function currentShare() {
  const { threshold, held_out: held } = state.model;
  return threshold === null ? (held?.rejected ?? 0) : shareRejected(threshold);
}

function tryShare(share) {
  clearNotice(find("threshold-job"));
  state.trial = { share, threshold: thresholdFor(share) };
  changed("trial");
}

function refresh() {
  if (!state.model) return;
  const { trial } = state;
  const current = state.model.threshold;
  const threshold = trial?.threshold ?? current;
  find("threshold-brief").textContent = `${trial ? "trying " : ""}${nameThreshold(threshold)}`;
  find("threshold-none").hidden = hasScores();
  find("threshold").hidden = !hasScores();
  if (!hasScores()) return;
  find("threshold-by-class").hidden = current !== null;
  find("threshold-apply").hidden = whyNot("set-threshold") !== null;
  find("threshold-why").textContent = whyNot("set-threshold");
  find("threshold-apply").disabled = find("threshold-reset").disabled = !trial;
  fill(find("threshold-chart"), drawScores(current, trial?.threshold ?? null));
  const now = currentEffect();
  const then = trial ? effectOf(trial.threshold) : now;
  const words = drawEffect(now, then, current, threshold);
  refreshFields(trial?.share ?? currentShare());
  find("threshold-slider").setAttribute(
    "aria-valuetext",
    `${percent(then.rejected)} of known samples and ${percent(then.simulated)} of simulated unknowns rejected, ` +
      `threshold ${nameByClass(threshold)}. ${words}`,
  );
}

/** Let the slider and the field show a share; what is being typed stays. */
function refreshFields(value) {
  const { slider, share } = find("threshold").elements;
  slider.value = stepAt(value);
  if (document.activeElement !== share) share.value = Number((100 * value).toFixed(value < 0.01 ? 2 : 1));
}

const nameByClass = (threshold) => (threshold === null ? "by class" : score(threshold));

/** Show what the threshold does now and would do; return what it would change of the decisions. */
function drawEffect(now, then, current, threshold) {
  const { trial, decisions } = state;
  const turned = trial && !isStale() ? decisions.filter(wouldChange) : [];
  const lost = turned.filter((d) => d.verdict === "recognized").length;
  const rejected = decided("rejected").length;
  const rows = [
    ["Threshold", nameByClass(current), nameByClass(threshold)],
    ["Known samples rejected", percent(now.rejected), percent(then.rejected)],
    ["Known samples right", percent(now.right), percent(then.right)],
    ["Simulated unknowns rejected", percent(now.simulated), percent(then.simulated)],
  ];
  if (decisions.length && !isStale()) {
    const after = rejected + 2 * lost - turned.length;
    rows.push([`Your ${count(decisions.length, "sample")} rejected`, number(rejected), number(after)]);
  }
  const head = (text) => h("th.number", { scope: "col" }, text);
  const row = ([title, before, after]) =>
    h("tr", h("th", { scope: "row" }, title), h("td.number", before), trial && h("td.number.trying", after));
  fill(
    find("threshold-effect"),
    h("thead", h("tr", h("td"), head("Now"), trial && head("Trying"))),
    h("tbody", rows.map(row)),
  );
  const words = turned.length
    ? `${count(turned.length, "sample changes", "samples change")}: ` +
      `${number(lost)} would be rejected, ${number(turned.length - lost)} recognized.`
    : "";
  find("threshold-turned").textContent = words;
  return words;
}

async function applyTrial(event) {
  event.preventDefault();
  const { trial, model } = state;
  if (!trial) return;
  const { share, threshold } = trial;
  // A target keeps its guarantee; "reject nothing" is not a target, so there the value itself is set.
  const json = share > 0 ? { target_rejection: Number(share.toPrecision(3)) } : { threshold };
  const done = await changeModel(find("threshold-job"), "set-threshold", { json }, {
    question: `Set the threshold to reject at most ${percent(share)} of known samples?`,
    text: `The threshold becomes about ${score(threshold)}.`,
    action: "Apply",
    title: "Setting the threshold",
    describe: (info) =>
      `The threshold is now ${info.threshold === null ? "set" : score(info.threshold)}: ${info.threshold_detail}.`,
  });
  if (!done || model.name !== state.model.name) return;
  find("threshold-slider").focus();
  refresh();
}
