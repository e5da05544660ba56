// The table of decisions: filters, order, pages, selection.
import { choosePlaces, filter, KINDS, order } from "./decision_filter.js";
import { saveDecisions } from "./decision_files.js";
import { drawRow, refreshTrial } from "./decision_row.js";
import { decide } from "./deciding.js";
import { announce, fill, find, focusHeading, h, keepFocus } from "./dom.js";
import { openWhy } from "./explanation.js";
import { isLogarithmic } from "./score_scale.js";
import { changed, decided, isStale, on, state } from "./state.js";
import { forgetTeaching, showTeaching } from "./teaching.js";
import { compareNames, count, number, percent } from "./wording.js";

let page = 0;
let places = [];
let drawnSet = null;

const form = () => find("filters");
const pageSize = () => Number(find("page-size").value);
const shown = () => places.map((place) => state.decisions[place]);
const countPages = () => Math.max(Math.ceil(places.length / pageSize()), 1);
const sorts = () => find("columns").querySelectorAll(".sort");
const rows = () => find("rows").querySelectorAll("tr[data-place]");
// Where the buttons below the table lead to.
const TURNS = { first: () => 0, previous: () => page - 1, next: () => page + 1, last: () => countPages() - 1 };

export function startTable() {
  form().addEventListener("input", refilter);
  form().addEventListener("submit", (event) => event.preventDefault());
  for (const format of ["csv", "json"]) {
    find(`save-${format}`).addEventListener("click", () => saveDecisions(shown(), format));
  }
  for (const button of sorts()) button.addEventListener("click", () => sortBy(button.value));
  for (const button of find("turns").children) button.addEventListener("click", () => turnTo(TURNS[button.value]()));
  find("page-size").addEventListener("change", () => turnTo(0));
  find("tick-all").addEventListener("change", selectAll);
  find("rows").addEventListener("click", openByClick);
  find("rows").addEventListener("keydown", moveByKey);
  on("samples", () => {
    if (state.samples === drawnSet) return; // decided again: what is looked at stays
    drawnSet = state.samples;
    forgetTeaching();
    page = 0;
    form().reset();
    Object.assign(order, { by: "row", down: false });
  });
  on("samples decisions model", draw);
  on("trial", () => (filter.kind === "changes" ? draw() : refreshTrials()));
  on("selection", () => {
    if (!state.decisions.length) return;
    refreshTicks();
    showTeaching();
  });
}

/** Show what the threshold being tried changes, in the rows that are there: a slider has many steps. */
function refreshTrials() {
  if (!state.decisions.length) return;
  showCounts();
  for (const row of rows()) refreshTrial(row);
}

function showCounts() {
  for (const input of form().elements.kind) {
    input.parentElement.querySelector("b").textContent = number(state.decisions.filter(KINDS[input.value]).length);
  }
  find("kind-changes").hidden = find("legend-trial").hidden = !state.trial;
}

function draw() {
  drawBrief();
  drawStale();
  find("no-samples").hidden = state.samples !== null;
  find("table").hidden = !state.decisions.length;
  if (!state.decisions.length) return;
  if (!state.trial && form().elements.kind.value === "changes") form().elements.kind.value = "all";
  drawLegend();
  showCounts();
  drawClasses();
  Object.assign(filter, Object.fromEntries(new FormData(form())));
  places = choosePlaces();
  page = Math.min(page, countPages() - 1);
  drawRows();
  showTeaching();
}

function drawBrief() {
  const all = state.decisions.length;
  const rejected = decided("rejected").length;
  const [only] = state.decisions;
  let words = `${number(all - rejected)} recognized, ${number(rejected)} unknown (${percent(rejected / all)})`;
  if (all === 1) words = rejected ? `unknown; the closest class is ${only.candidate}` : `recognized as ${only.label}`;
  find("decisions-brief").textContent = all ? `${state.samples.title}: ${words}` : "";
}

function drawStale() {
  const place = find("stale");
  const texts = [...(state.run?.notes ?? [])];
  if (state.run?.dropped) texts.push(`${count(state.run.dropped, "row")} with missing values left out.`);
  const isOld = isStale() && state.decisions.length > 0;
  const now = JSON.stringify([isOld, texts]);
  if (now === place.dataset.shown) return; // drawn anew it would be read aloud anew
  place.dataset.shown = now;
  const again = () => {
    decide();
    focusHeading(place);
  };
  const stale = h(
    "div.note.row",
    { role: "status" },
    h("p", "The model has changed since. These decisions are of the version before."),
    h("button.button.small", { dataset: { focus: "again" }, onclick: again }, "Decide again"),
  );
  const notes = texts.map((text) => h("p.note", text));
  keepFocus(place, () => fill(place, isOld && stale, notes));
}

/** Say what the marks of the bars are, and what the sets of possible classes promise. */
function drawLegend() {
  const { coverage, guarantee } = state.run;
  const promise = `the true class is among these for at least ${percent(coverage)} of known samples`;
  find("legend-scale").hidden = !isLogarithmic();
  find("legend-sets").textContent =
    coverage && guarantee
      ? `Possible: ${promise}, ${guarantee}. They are found class by class, not by the threshold.`
      : "";
}

function refilter() {
  page = 0;
  draw();
  announce(`${count(places.length, "sample")} shown.`);
}

function drawClasses() {
  const select = find("filter-class");
  const chosen = select.value;
  const names = [...new Set(state.decisions.map((d) => d.candidate))].sort(compareNames);
  const options = names.map((name) => h("option", { value: name, selected: name === chosen }, name));
  fill(select, h("option", { value: "" }, "Any"), options);
}

function drawRows() {
  const withSets = state.decisions.some((d) => d.prediction_set);
  const withTruth = state.samples.truth(state.decisions[0].row) !== null;
  for (const { value, parentElement: head } of sorts()) {
    head.ariaSort = order.by !== value ? "none" : order.down ? "descending" : "ascending";
    head.hidden = (value === "set" && !withSets) || (value === "truth" && !withTruth);
  }
  const from = page * pageSize();
  const here = places.slice(from, from + pageSize());
  const none = h("tr", { role: "row" }, h("td.none", { role: "cell", colSpan: 7 }, "No sample fits the filters."));
  keepFocus(find("rows"), () =>
    fill(find("rows"), here.length ? here.map((place) => drawRow(place, withSets, withTruth)) : none),
  );
  refreshTicks();
  find("pages").hidden = places.length <= 25;
  find("pages-text").textContent = `${number(from + 1)}–${number(from + here.length)} of ${number(places.length)}`;
  // A button that leads nowhere keeps the focus: it is said to be off, but stays in its place.
  for (const button of find("turns").children) {
    const to = TURNS[button.value]();
    button.ariaDisabled = String(to === page || to < 0 || to >= countPages());
  }
}

/** Show which samples are selected; the box in the head is for all that fit the filters, on all pages. */
function refreshTicks() {
  for (const row of rows()) {
    row.querySelector(".tick input").checked = state.selected.has(Number(row.dataset.place));
  }
  const tick = find("tick-all");
  const n = places.filter((place) => state.selected.has(place)).length;
  tick.checked = n > 0 && n === places.length;
  tick.indeterminate = n > 0 && n < places.length;
  tick.ariaLabel = tick.title =
    `Select all ${count(places.length, "sample")}${places.length > pageSize() ? ", on all pages" : ""}`;
}

function sortBy(column) {
  order.down = order.by === column ? !order.down : column === "score";
  order.by = column;
  page = 0;
  draw();
}

function turnTo(to) {
  if (to < 0 || to >= countPages()) return;
  page = to;
  drawRows();
  announce(`Page ${page + 1}.`);
}

function selectAll() {
  for (const place of places) {
    if (find("tick-all").checked) state.selected.add(place);
    else state.selected.delete(place);
  }
  changed("selection");
}

function openByClick(event) {
  if (event.target.closest("input, .tick")) return;
  const row = event.target.closest("tr[data-place]");
  if (row) openWhy(Number(row.dataset.place), places);
}

function moveByKey(event) {
  const row = event.target.closest("tr[data-place]");
  const next = { ArrowDown: row?.nextElementSibling, ArrowUp: row?.previousElementSibling }[event.key];
  if (!next) return;
  event.preventDefault();
  next.querySelector(event.target.matches(".open") ? ".open" : "input").focus();
}
