// The table of decisions: filters, order, pages, selection.
import { choosePlaces, countKinds, filter, order } from "./decision_filter.js";
import { saveDecisions } from "./decision_files.js";
import { drawRow, refreshTrial } from "./decision_row.js";
import { decide } from "./deciding.js";
import { announce, fill, find, focusHeading, h, keepFocus, oncePerFrame } from "./dom.js";
import { openWhy } from "./explanation.js";
import { isLogarithmic } from "./score_scale.js";
import { changed, isStale, on, state } from "./state.js";
import { forgetTeaching, showTeaching } from "./teaching.js";
import { count, number, percent } from "./wording.js";

const PAGE_SIZES = [25, 50, 100];
const COLUMNS = [
  ["row", "Sample"],
  ["label", "Answer"],
  ["score", "Unknown score"],
  ["candidate", "Closest"],
  ["set", "Possible"],
  ["truth", "True"],
];
const KINDS = [
  ["all", "All"],
  ["rejected", "Rejected"],
  ["recognized", "Recognized"],
  ["near", "Near threshold"],
  ["changes", "Would change"],
];
let page = 0;
let pageSize = PAGE_SIZES[0];
let places = [];
let parts = null;
let drawnSet = null;

export function startTable() {
  const redraw = oncePerFrame(draw);
  on("samples", () => {
    redraw();
    if (state.samples === drawnSet) return; // decided again: what is looked at stays
    drawnSet = state.samples;
    forgetTeaching();
    page = 0;
    Object.assign(filter, { kind: "all", label: "", text: "" });
    Object.assign(order, { by: "row", down: false });
    parts = null;
  });
  on("decisions model", redraw);
  on("trial", () => (parts?.root.isConnected && filter.kind !== "changes" ? refreshTrials() : redraw()));
  on("selection", () => {
    if (!parts || !state.decisions.length) return;
    refreshTicks();
    showTeaching(parts.teaching);
  });
  redraw();
}

/** Show what the threshold being tried changes, in the rows that are there: a slider has many steps. */
function refreshTrials() {
  showCounts();
  for (const row of parts.body.querySelectorAll("tr[data-place]")) refreshTrial(row);
}

function showCounts() {
  const counts = countKinds();
  for (const [kind, { label, input, total }] of Object.entries(parts.kinds)) {
    label.hidden = kind === "changes" && !state.trial;
    input.checked = kind === filter.kind;
    total.textContent = number(counts[kind]);
  }
  for (const element of parts.legend.querySelectorAll(".of-trial")) element.hidden = !state.trial;
}

function draw() {
  drawBrief();
  drawStale();
  if (!state.decisions.length) {
    parts = null;
    fill(find("decisions"), state.samples ? null : drawEmpty());
    return;
  }
  if (!parts || !parts.root.isConnected) parts = build();
  if (filter.kind === "changes" && !state.trial) filter.kind = "all";
  drawLegend();
  showCounts();
  drawClasses();
  places = choosePlaces();
  page = Math.min(page, Math.max(Math.ceil(places.length / pageSize) - 1, 0));
  drawRows();
  drawPages();
  showTeaching(parts.teaching);
}

function drawEmpty() {
  return h(
    "div",
    { class: "empty" },
    h("p", {}, "No samples yet."),
    h("p", { class: "quiet" }, "Each sample gets a class that the model knows, or “unknown”, with the reasons."),
  );
}

function drawBrief() {
  const all = state.decisions.length;
  const rejected = state.decisions.filter((d) => d.verdict === "rejected").length;
  const title = state.samples ? `${state.samples.title}: ` : "";
  let text = "";
  if (all === 1) {
    const [only] = state.decisions;
    text = rejected ? `${title}unknown; the closest class is ${only.candidate}` : `${title}recognized as ${only.label}`;
  } else if (all)
    text = `${title}${number(all - rejected)} recognized, ${number(rejected)} unknown (${percent(rejected / all)})`;
  find("decisions-brief").textContent = text;
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
  const stale = isOld
    ? h(
        "div",
        { class: "note row", role: "status" },
        h("p", {}, "The model has changed since. These decisions are of the version before."),
        h(
          "button",
          { type: "button", class: "button small", data: { focus: "again" }, on: { click: again } },
          "Decide again",
        ),
      )
    : null;
  const notes = texts.map((text) => h("p", { class: "note" }, text));
  keepFocus(place, () => fill(place, stale, notes));
}

function build() {
  const kinds = {};
  const segments = KINDS.map(([kind, text]) => {
    const total = h("b", {});
    const input = h("input", { type: "radio", name: "kind", value: kind, on: { change: () => refilter({ kind }) } });
    const label = h("label", { class: "segment" }, input, h("span", {}, `${text} `, total));
    kinds[kind] = { label, input, total };
    return label;
  });
  const classes = h("select", { id: "filter-class", on: { change: () => refilter({ label: classes.value }) } });
  const text = h("input", {
    type: "search",
    id: "filter-text",
    placeholder: "Row, name or class",
    on: { input: () => refilter({ text: text.value }) },
  });
  const save = (format) => () =>
    saveDecisions(
      places.map((place) => state.decisions[place]),
      format,
    );
  const body = h("tbody", { role: "rowgroup" });
  const head = h("tr", { role: "row" });
  const tick = h("input", {
    type: "checkbox",
    data: { focus: "tick-all" },
    on: { change: () => selectAll(tick.checked) },
  });
  const table = h(
    "table",
    { class: "decisions", role: "table", "aria-label": "Decisions" },
    h("thead", { role: "rowgroup" }, head),
    body,
  );
  const root = h(
    "div",
    {},
    h(
      "div",
      { class: "filters" },
      h(
        "div",
        { class: "filters-kinds" },
        h("fieldset", { class: "segments wrap" }, h("legend", { class: "visually-hidden" }, "Show"), segments),
      ),
      h("div", { class: "field" }, h("label", { for: "filter-class" }, "Closest class"), classes),
      h("div", { class: "field grow" }, h("label", { for: "filter-text" }, "Find"), text),
      h(
        "div",
        { class: "actions" },
        h(
          "button",
          { type: "button", class: "button", on: { click: save("csv") }, "aria-label": "Download as CSV" },
          "↓ CSV",
        ),
        h(
          "button",
          { type: "button", class: "button", on: { click: save("json") }, "aria-label": "Download as JSON" },
          "↓ JSON",
        ),
      ),
    ),
    h("div", { id: "teaching" }),
    h("div", { class: "scroll", tabindex: 0, role: "region", "aria-label": "Table of decisions" }, table),
    h("div", { class: "pages" }),
    h("div", { class: "quiet legend" }),
  );
  body.addEventListener("click", openByClick);
  body.addEventListener("keydown", moveByKey);
  fill(find("decisions"), root);
  return {
    root,
    kinds,
    classes,
    text,
    body,
    head,
    tick,
    teaching: root.querySelector("#teaching"),
    pages: root.querySelector(".pages"),
    legend: root.querySelector(".legend"),
  };
}

/** Say what the marks of the bars are, and what the sets of possible classes promise. */
function drawLegend() {
  const { coverage, guarantee } = state.run;
  const promise = `the true class is among these for at least ${percent(coverage)} of known samples`;
  fill(
    parts.legend,
    h(
      "p",
      {},
      h("span", { class: "legend-mark" }),
      "threshold",
      h("span", { class: "of-trial" }, h("span", { class: "legend-mark trial" }), "threshold being tried"),
      isLogarithmic() ? ". Scores crowd near 1, so bars are drawn by −log₁₀(1 − score)." : "",
    ),
    coverage && guarantee
      ? h("p", {}, `Possible: ${promise}, ${guarantee}. They are found class by class, not by the threshold.`)
      : null,
  );
}

function refilter(change) {
  Object.assign(filter, change);
  page = 0;
  draw();
  announce(`${count(places.length, "sample")} shown.`);
}

function drawClasses() {
  const names = [...new Set(state.decisions.map((d) => d.candidate))].sort((a, b) =>
    a.localeCompare(b, "en", { numeric: true }),
  );
  if (filter.label && !names.includes(filter.label)) filter.label = "";
  fill(
    parts.classes,
    h("option", { value: "" }, "Any"),
    names.map((name) => h("option", { value: name }, name)),
  );
  parts.classes.value = filter.label;
}

function drawRows() {
  const withSets = state.decisions.some((d) => d.prediction_set);
  const withTruth = state.samples.truth(state.decisions[0].row) !== null;
  const columns = COLUMNS.filter(([key]) => (key !== "set" || withSets) && (key !== "truth" || withTruth));
  keepFocus(parts.root, () => fillTable(columns, withSets, withTruth));
  refreshTicks();
}

function fillTable(columns, withSets, withTruth) {
  fill(
    parts.head,
    h("th", { role: "columnheader", class: "tick" }, parts.tick),
    columns.map(([key, text]) => {
      const sorted = order.by === key;
      const arrow = sorted ? (order.down ? "▼" : "▲") : "";
      const button = h(
        "button",
        { type: "button", class: "sort", data: { focus: `sort-${key}` }, on: { click: () => sortBy(key) } },
        text,
        h("span", { class: "arrow", "aria-hidden": "true" }, arrow),
      );
      return h(
        "th",
        {
          role: "columnheader",
          scope: "col",
          class: `column-${key}`,
          "aria-sort": sorted ? (order.down ? "descending" : "ascending") : "none",
        },
        button,
      );
    }),
  );
  const shown = places.slice(page * pageSize, (page + 1) * pageSize);
  fill(
    parts.body,
    shown.map((place) => drawRow(place, withSets, withTruth)),
  );
  if (!shown.length) {
    fill(
      parts.body,
      h(
        "tr",
        { role: "row" },
        h("td", { role: "cell", colSpan: columns.length + 1, class: "none" }, "No sample fits the filters."),
      ),
    );
  }
}

/** Show which samples are selected; the box in the head is for all that fit the filters, on all pages. */
function refreshTicks() {
  for (const row of parts.body.querySelectorAll("tr[data-place]")) {
    row.querySelector(".tick input").checked = state.selected.has(Number(row.dataset.place));
  }
  const n = places.reduce((total, place) => total + (state.selected.has(place) ? 1 : 0), 0);
  const name = `Select all ${count(places.length, "sample")}${places.length > pageSize ? ", on all pages" : ""}`;
  parts.tick.checked = n > 0 && n === places.length;
  parts.tick.indeterminate = n > 0 && n < places.length;
  parts.tick.setAttribute("aria-label", name);
  parts.tick.title = name;
}

function sortBy(key) {
  order.down = order.by === key ? !order.down : key === "score";
  order.by = key;
  page = 0;
  draw();
}

function drawPages() {
  const pages = Math.max(Math.ceil(places.length / pageSize), 1);
  if (places.length <= PAGE_SIZES[0]) {
    fill(parts.pages);
    return;
  }
  // A button that leads nowhere keeps the focus: it is said to be off, but stays in its place.
  const turn = (to, text, name) => {
    const off = to < 0 || to >= pages || to === page;
    return h(
      "button",
      {
        type: "button",
        class: "button small",
        "aria-disabled": String(off),
        "aria-label": name,
        data: { focus: name },
        on: { click: () => off || turnTo(to) },
      },
      text,
    );
  };
  const sizes = h(
    "select",
    {
      id: "page-size",
      on: {
        change: () => {
          pageSize = Number(sizes.value);
          page = 0;
          draw();
        },
      },
    },
    PAGE_SIZES.map((size) => h("option", { value: size, selected: size === pageSize }, `${size}`)),
  );
  const from = page * pageSize;
  keepFocus(parts.pages, () =>
    fill(
      parts.pages,
      h(
        "span",
        { class: "quiet" },
        `${number(from + 1)}–${number(Math.min(from + pageSize, places.length))} of ${number(places.length)}`,
      ),
      h(
        "span",
        { class: "actions" },
        turn(0, "«", "First page"),
        turn(page - 1, "‹", "Previous page"),
        turn(page + 1, "›", "Next page"),
        turn(pages - 1, "»", "Last page"),
      ),
      h("span", { class: "field inline" }, h("label", { for: "page-size" }, "Rows"), sizes),
    ),
  );
}

function turnTo(to) {
  page = to;
  drawRows();
  drawPages();
  announce(`Page ${page + 1}.`);
}

function selectAll(ticked) {
  for (const place of places) {
    if (ticked) state.selected.add(place);
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
  const step = { ArrowDown: 1, ArrowUp: -1 }[event.key];
  const row = event.target.closest("tr[data-place]");
  if (!step || !row || !event.target.matches(".open, input[type=checkbox]")) return;
  event.preventDefault();
  const next = step > 0 ? row.nextElementSibling : row.previousElementSibling;
  next?.querySelector(event.target.matches(".open") ? ".open" : "input")?.focus();
}
