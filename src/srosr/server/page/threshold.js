// The threshold: try another one, see at once what it does, apply it.
import { ask } from "./dialogs.js";
import { wouldChange } from "./decision_filter.js";
import { fill, find, h, keepFocus } from "./dom.js";
import { clearNotice } from "./jobs.js";
import { changeModel } from "./model_changes.js";
import { currentEffect, effectOf, shareRejected, thresholdFor } from "./score_scale.js";
import { drawScores } from "./score_chart.js";
import { changed, isStale, on, state, whyNot } from "./state.js";
import { fileNote } from "./teaching.js";
import { count, nameThreshold, number, percent, score } from "./wording.js";

const STEPS = 200;
const MOST = 0.5;
const BEND = 5; // small shares get most of the way: half of it is 3.8 %
let parts = null;

const shareAt = (step) => (MOST * Math.expm1((BEND * step) / STEPS)) / Math.expm1(BEND);
const stepAt = (share) => Math.round((STEPS * Math.log1p((Math.min(share, MOST) * Math.expm1(BEND)) / MOST)) / BEND);

export function startThreshold() {
  // On a telephone the table should be near: the card starts folded there.
  if (matchMedia("(max-width: 899px)").matches) find("threshold-fold").open = false;
  on("model", () => keepFocus(find("threshold"), build));
  on("trial decisions", refresh);
}

function build() {
  find("threshold-brief").textContent = nameThreshold(state.info.threshold);
  if (!state.scores?.known.length) {
    parts = null;
    fill(find("threshold"), h("p", { class: "quiet" }, "The model has no held-out scores to choose a threshold by."));
    return;
  }
  const slider = h("input", { type: "range", id: "threshold-slider", min: 0, max: STEPS, step: 1 });
  const share = h("input", { type: "number", id: "threshold-share", min: 0, max: 50, step: 0.1, inputMode: "decimal" });
  slider.addEventListener("input", () => tryShare(shareAt(Number(slider.value))));
  const limits = h("p", { class: "error", role: "alert", id: "threshold-limits", hidden: true });
  share.addEventListener("input", () => {
    const value = Number(share.value) / 100;
    const fits = share.value !== "" && value >= 0 && value <= MOST;
    showFit(fits);
    if (fits) tryShare(value, share);
    else apply.disabled = true;
  });
  share.addEventListener("change", () => {
    showFit(true);
    refresh(); // the field shows what is tried again
  });
  const showFit = (fits) => {
    limits.hidden = fits;
    limits.textContent = fits ? "" : `Give a share from 0 to ${percent(MOST)}.`;
    share.setAttribute("aria-invalid", String(!fits));
  };
  const apply = h("button", { type: "button", class: "button primary", on: { click: applyTrial } }, "Apply");
  const reset = h("button", { type: "button", class: "button", on: { click: () => resetTrial(slider) } }, "Reset");
  const why = whyNot("set-threshold");
  const chart = h("div", { class: "chart" });
  const effect = h("table", { class: "plain effect", "aria-label": "What the threshold does" });
  const turned = h("p", { class: "turned" });
  const slot = parts?.slot ?? h("div", { class: "slot" });
  fill(
    find("threshold"),
    state.info.threshold === null
      ? h("p", { class: "note" }, "Each class has a threshold of its own. Applying one here replaces them all.")
      : null,
    chart,
    h("label", { for: "threshold-slider", class: "slider-label" }, "Known samples to reject"),
    slider,
    h(
      "div",
      { class: "slider-ends quiet", "aria-hidden": "true" },
      h("span", {}, "accept more"),
      h("span", {}, "reject more"),
    ),
    h(
      "div",
      { class: "field inline" },
      h("label", { for: "threshold-share" }, "Reject at most"),
      share,
      h("span", {}, "% of known"),
    ),
    limits,
    effect,
    turned,
    h("div", { class: "actions" }, why ? null : apply, reset),
    why ? h("p", { class: "quiet" }, why) : null,
    slot,
  );
  parts = { slider, share, chart, effect, turned, apply, reset, slot };
  refresh();
}

/** The threshold of the model, or null if each class has its own. */
const currentThreshold = () => state.info.threshold;

function currentShare() {
  const threshold = currentThreshold();
  return threshold === null ? (state.info.held_out?.rejected ?? 0) : shareRejected(threshold);
}

let typed = null;

function tryShare(share, source = null) {
  typed = source;
  clearNotice(parts.slot);
  state.trial = { share, threshold: thresholdFor(share) };
  changed("trial");
  typed = null;
}

function resetTrial(slider) {
  state.trial = null;
  changed("trial");
  slider.focus();
}

function refresh() {
  if (!parts) return;
  const { trial } = state;
  const share = trial?.share ?? currentShare();
  const threshold = trial?.threshold ?? currentThreshold();
  const now = currentEffect();
  const then = trial ? effectOf(trial.threshold) : now;
  parts.slider.value = stepAt(share);
  if (typed !== parts.share) parts.share.value = Number((100 * share).toFixed(share < 0.01 ? 2 : 1));
  parts.apply.disabled = parts.reset.disabled = !trial;
  fill(parts.chart, drawScores(currentThreshold(), trial?.threshold ?? null));
  const name = (value) => (value === null ? "by class" : score(value));
  const turned = trial && !isStale() ? state.decisions.filter(wouldChange) : [];
  const lost = turned.filter((d) => d.verdict === "recognized").length;
  const rejected = state.decisions.filter((d) => d.verdict === "rejected").length;
  const rows = [
    ["Threshold", name(currentThreshold()), name(threshold)],
    ["Known samples rejected", percent(now.rejected), percent(then.rejected)],
    ["Known samples right", percent(now.right), percent(then.right)],
    ["Simulated unknowns rejected", percent(now.simulated), percent(then.simulated)],
  ];
  const all = state.decisions.length;
  if (all && !isStale())
    rows.push([`Your ${count(all, "sample")} rejected`, number(rejected), number(rejected + 2 * lost - turned.length)]);
  fill(
    parts.effect,
    h(
      "thead",
      {},
      h(
        "tr",
        {},
        h("td", {}),
        h("th", { scope: "col", class: "number" }, "Now"),
        trial ? h("th", { scope: "col", class: "number" }, "Trying") : null,
      ),
    ),
    h(
      "tbody",
      {},
      rows.map(([title, before, after]) =>
        h(
          "tr",
          {},
          h("th", { scope: "row" }, title),
          h("td", { class: "number" }, before),
          trial ? h("td", { class: "number trying" }, after) : null,
        ),
      ),
    ),
  );
  const words = turned.length
    ? `${count(turned.length, "sample changes", "samples change")}: ` +
      `${number(lost)} would be rejected, ${number(turned.length - lost)} recognized.`
    : "";
  parts.turned.textContent = words;
  parts.slider.setAttribute(
    "aria-valuetext",
    `${percent(then.rejected)} of known samples and ${percent(then.simulated)} of simulated unknowns rejected, ` +
      `threshold ${name(threshold)}. ${words}`,
  );
  const brief = nameThreshold(threshold);
  find("threshold-brief").textContent = trial ? `trying ${brief}` : brief;
}

async function applyTrial() {
  const { share, threshold } = state.trial;
  const { model } = state;
  const yes = await ask({
    title: `Set the threshold to reject at most ${percent(share)} of known samples?`,
    text: [`The threshold becomes about ${score(threshold)}.`, fileNote()],
    action: "Apply",
  });
  if (!yes) return;
  // A target keeps its guarantee; "reject nothing" is not a target, so there the value itself is set.
  const json = share > 0 ? { target_rejection: Number(share.toPrecision(3)) } : { threshold };
  const done = await changeModel(
    parts.slot,
    model,
    "set-threshold",
    { json },
    {
      title: "Setting the threshold",
      describe: (info) =>
        `The threshold is now ${info.threshold === null ? "set" : score(info.threshold)}: ${info.threshold_detail}.`,
    },
  );
  if (done && model.name === state.model.name) parts?.slider.focus();
}
