// What cards hold: a heading, tables, lists of facts, figures.
import { h } from "./dom.js";

/** Build a card with a heading, known by its id. */
export const card = (id, title, ...children) =>
  h("section.card", { "aria-labelledby": id }, h("h3", { id }, title), children);

/** Build a table in a region that scrolls where it is too wide. Columns are [name, class]; rows are lists of cells. */
export function table(name, columns, rows, foot = null) {
  const head = columns.map(([text, kind = ""]) => (text ? h("th", { scope: "col", className: kind }, text) : h("td")));
  const cell = (content, i) =>
    i ? h("td", { className: columns[i][1] ?? "" }, content) : h("th", { scope: "row" }, content);
  const body = rows.map((row) => h("tr", row.map(cell)));
  return h(
    "div.scroll",
    { tabIndex: 0, role: "region", ariaLabel: name, dataset: { focus: name } },
    h("table.plain", h("thead", h("tr", head)), h("tbody", body), foot),
  );
}

/** Build a list of [name, text]. */
export const facts = (all) =>
  h(
    "dl.facts",
    all.map(([name, text]) => [h("dt", name), h("dd", text)]),
  );

/** Build a figure with its name, and more in smaller letters below. */
export const tile = (name, value, ...more) =>
  h(
    "div.figure-tile",
    h("dt", name),
    h(
      "dd",
      h("b", value),
      more.map((text) => text && h("span.quiet", text)),
    ),
  );

/** Build a bar that is filled to a share from 0 to 1. */
export const bar = (kind, share, more = "") =>
  h(`span.${kind}`, { ariaHidden: "true" }, h(`span.${kind}-fill${more}`, { style: { width: `${100 * share}%` } }));
