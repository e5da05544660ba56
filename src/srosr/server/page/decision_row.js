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
  const tick = h("input", {
    type: "checkbox",
    "aria-label": `Select ${name}`,
    checked: state.selected.has(place),
    data: { focus: `tick-${place}` },
  });
  tick.addEventListener("change", () => {
    if (tick.checked) state.selected.add(place);
    else state.selected.delete(place);
    changed("selection");
  });
  const cell = (key, title, ...content) => h("td", { role: "cell", class: `column-${key}`, data: { title } }, content);
  const row = h(
    "tr",
    { role: "row", class: "decision", data: { place } },
    h("td", { role: "cell", class: "tick" }, tick),
    cell(
      "row",
      "Sample",
      h(
        "button",
        { type: "button", class: "open", data: { focus: `open-${place}` }, "aria-label": `${name}: why` },
        thumbnail(state.samples, decision.row),
        h("span", { class: "name" }, name),
      ),
    ),
    cell(
      "label",
      "Answer",
      h(
        "span",
        { class: "answer-cell" },
        h("span", { class: `sign ${decision.verdict}`, "aria-hidden": "true" }, rejected ? "✕" : "✓"),
        h(
          "span",
          {},
          h("span", { class: rejected ? "answer unknown" : "answer" }, rejected ? "unknown" : decision.label),
          h("span", { class: "verdict" }, decision.verdict),
        ),
      ),
    ),
    cell("score", "Unknown score", scoreBar(decision)),
    cell("candidate", "Closest", decision.candidate),
    withSets
      ? cell("set", "Possible", decision.prediction_set?.length ? listOr(decision.prediction_set) : "none")
      : null,
    withTruth ? cell("truth", "True", state.samples.truth(decision.row)) : null,
  );
  refreshTrial(row);
  return row;
}

/** Show in a row whether the threshold being tried would decide otherwise. */
export function refreshTrial(row) {
  const decision = state.decisions[row.dataset.place];
  if (!decision) return; // the rows are about to be drawn anew
  const turns = wouldChange(decision);
  row.classList.toggle("turns", turns);
  row.querySelector(".turn")?.remove();
  const words = decision.verdict === "rejected" ? "would be recognized" : "would be rejected";
  if (turns) row.querySelector(".verdict").after(h("span", { class: "turn" }, words));
  markTrial(row.querySelector(".bar"));
}
