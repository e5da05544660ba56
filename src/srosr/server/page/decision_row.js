// One decision as a row of the table.
import { nameOf, wouldChange } from "./decision_filter.js";
import { h } from "./dom.js";
import { thumbnail } from "./pictures.js";
import { markTrial, scoreBar } from "./score_bar.js";
import { changed, state } from "./state.js";
import { listOr } from "./wording.js";

/** Build the row of the decision at a place in `state.decisions`. */
export function drawRow(place, withSets, withTruth) {
  const decision = state.decisions[place];
  const rejected = decision.verdict === "rejected";
  const name = nameOf(decision);
  const select = () => {
    if (tick.checked) state.selected.add(place);
    else state.selected.delete(place);
    changed("selection");
  };
  const focus = (what) => ({ dataset: { focus: `${what}-${place}` } });
  const tick = h("input", { type: "checkbox", ariaLabel: `Select ${name}`, onchange: select, ...focus("tick") });
  const open = h(
    "button.open",
    { ariaLabel: `${name}: why`, ...focus("open") },
    thumbnail(state.samples, decision.row),
    h("span.name", name),
  );
  const answer = h(
    "span.answer-cell",
    h(`span.sign.${decision.verdict}`, { ariaHidden: "true" }, rejected ? "✕" : "✓"),
    h(
      "span",
      rejected ? h("span.answer.unknown", "unknown") : h("span.answer", decision.label),
      h("span.verdict", decision.verdict),
    ),
  );
  // The roles are said since rows are drawn as cards, not as a table, on small screens.
  const cell = (key, title, content) => h(`td.column-${key}`, { role: "cell", dataset: { title } }, content);
  const row = h(
    "tr.decision",
    { role: "row", dataset: { place } },
    h("td.tick", { role: "cell" }, tick),
    cell("row", "Sample", open),
    cell("label", "Answer", answer),
    cell("score", "Unknown score", scoreBar(decision)),
    cell("candidate", "Closest", decision.candidate),
    withSets && cell("set", "Possible", listOr(decision.prediction_set ?? []) || "none"),
    withTruth && cell("truth", "True", state.samples.truth(decision.row)),
  );
  refreshTrial(row);
  return row;
}

/** Show in a row whether the threshold being tried would decide otherwise. */
export function refreshTrial(row) {
  const decision = state.decisions[row.dataset.place];
  const turns = wouldChange(decision);
  row.classList.toggle("turns", turns);
  row.querySelector(".turn")?.remove();
  const words = decision.verdict === "rejected" ? "would be recognized" : "would be rejected";
  if (turns) row.querySelector(".verdict").after(h("span.turn", words));
  markTrial(row.querySelector(".bar"));
}
