// A digit drawn by hand becomes what the digits of the demo are: 8 by 8 counts of ink, from 0 to 16.
import { decide } from "./deciding.js";
import { announce, fill, h } from "./dom.js";
import { NumberSet } from "./sample_set.js";
import { state } from "./state.js";

const SIZE = 8;
const FINE = 32; // the data set's bitmaps are 32 × 32; each value counts the ink of 4 × 4 of them
const BLOCK = FINE / SIZE;
const PEN = 4.4; // the usual width of a stroke there
const PAD = 256;
const DRAWN = "drawn";
let strokes = [];
let values = new Array(SIZE * SIZE).fill(0);
const typed = new Map(); // cells that were set by keys or clicks; strokes do not wipe them

export function showDrawing(place) {
  if (place.childElementCount) return;
  const pad = h("canvas", { width: PAD, height: PAD, class: "pad", "aria-label": "Draw a digit here", role: "img" });
  const context = pad.getContext("2d");
  const cells = values.map((_, i) =>
    h("td", { role: "gridcell", class: "cell", tabindex: i ? -1 : 0, data: { place: i } }),
  );
  const rows = Array.from({ length: SIZE }, (_, r) => h("tr", { role: "row" }, cells.slice(r * SIZE, (r + 1) * SIZE)));
  const grid = h(
    "table",
    { role: "grid", class: "cells", "aria-label": "The 8 by 8 values; arrow keys move, space changes a cell" },
    h("tbody", {}, rows),
  );
  const decideButton = h("button", { type: "button", class: "button primary" }, "Decide on the drawing");

  const refresh = () => {
    cells.forEach((cell, i) => {
      // Ink on paper, in both themes.
      const gray = Math.round(255 * (1 - values[i] / 16));
      cell.style.backgroundColor = `rgb(${gray}, ${gray}, ${gray})`;
      cell.setAttribute("aria-label", `Row ${Math.floor(i / SIZE) + 1}, column ${(i % SIZE) + 1}: ${values[i]} of 16`);
    });
    decideButton.disabled = !values.some(Boolean);
  };
  const paintPad = () => {
    context.fillStyle = "#fff";
    context.fillRect(0, 0, PAD, PAD);
    trace(context, strokes, (p) => [p[0] * PAD, p[1] * PAD], (PEN / FINE) * PAD);
  };
  const clear = () => {
    strokes = [];
    typed.clear();
    values = values.map(() => 0);
    paintPad();
    refresh();
  };

  const point = (event) => {
    const box = pad.getBoundingClientRect();
    return [(event.clientX - box.left) / box.width, (event.clientY - box.top) / box.height];
  };
  let pointer = null; // one draws at a time: a second finger, or another button, does not
  pad.addEventListener("pointerdown", (event) => {
    if (pointer !== null || event.button !== 0) return;
    pointer = event.pointerId;
    pad.setPointerCapture(pointer);
    strokes.push([point(event)]);
    paintPad();
  });
  pad.addEventListener("pointermove", (event) => {
    if (event.pointerId !== pointer) return;
    strokes.at(-1).push(point(event));
    paintPad();
  });
  const endStroke = (event) => {
    if (event.pointerId !== pointer) return;
    pointer = null;
    values = rasterize(strokes);
    for (const [i, value] of typed) values[i] = value;
    refresh();
  };
  pad.addEventListener("pointerup", endStroke);
  pad.addEventListener("pointercancel", endStroke);
  grid.addEventListener("keydown", (event) => handleKey(event, cells, refresh));
  grid.addEventListener("click", (event) => {
    const cell = event.target.closest(".cell");
    if (cell) changeCell(Number(cell.dataset.place), refresh);
  });
  decideButton.addEventListener("click", () => {
    const before = state.samples instanceof NumberSet && state.samples.origin === DRAWN ? state.samples.rows : [];
    const rows = [...before, [...values]];
    const names = rows.map((_, i) => `Drawing ${i + 1}`);
    decide(new NumberSet(rows, { names, shape: [SIZE, SIZE], origin: DRAWN }), { added: before.length > 0 });
  });

  fill(
    place,
    h(
      "div",
      { class: "drawing" },
      h("figure", {}, pad, h("figcaption", {}, "Draw a digit")),
      h("figure", {}, grid, h("figcaption", {}, "What the model sees. Keyboard: arrows and space.")),
    ),
    h(
      "div",
      { class: "actions" },
      decideButton,
      h("button", { type: "button", class: "button", on: { click: clear } }, "Clear"),
    ),
  );
  paintPad();
  refresh();
}

function handleKey(event, cells, refresh) {
  const place = cells.indexOf(event.target);
  if (place < 0) return;
  const row = Math.floor(place / SIZE);
  const column = place % SIZE;
  const next = {
    ArrowRight: column < SIZE - 1 ? place + 1 : place,
    ArrowLeft: column ? place - 1 : place,
    ArrowDown: row < SIZE - 1 ? place + SIZE : place,
    ArrowUp: row ? place - SIZE : place,
    Home: row * SIZE,
    End: row * SIZE + SIZE - 1,
  }[event.key];
  if (event.key === " " || event.key === "Enter") {
    event.preventDefault();
    changeCell(place, refresh);
    announce(`${values[place]} of 16`);
  } else if (next !== undefined) {
    event.preventDefault();
    cells[place].tabIndex = -1;
    cells[next].tabIndex = 0;
    cells[next].focus();
  }
}

function changeCell(place, refresh) {
  values[place] = values[place] >= 16 ? 0 : values[place] >= 8 ? 16 : 8;
  typed.set(place, values[place]);
  refresh();
}

function trace(context, lines, map, width) {
  context.lineCap = context.lineJoin = "round";
  context.lineWidth = width;
  context.strokeStyle = "#111";
  for (const line of lines) {
    context.beginPath();
    line.forEach((p, i) => (i ? context.lineTo(...map(p)) : context.moveTo(...map(p))));
    if (line.length === 1) context.lineTo(...map(line[0]).map((value) => value + 0.01));
    context.stroke();
  }
}

/** Return 64 values: the strokes cropped, scaled to the full height, centered, as a bitmap, counted in blocks. */
function rasterize(lines) {
  const points = lines.flat();
  if (!points.length) return new Array(SIZE * SIZE).fill(0);
  const xs = points.map((p) => p[0]);
  const ys = points.map((p) => p[1]);
  const [left, right, top, bottom] = [Math.min(...xs), Math.max(...xs), Math.min(...ys), Math.max(...ys)];
  const inner = FINE - PEN;
  const scale = Math.min(inner / Math.max(bottom - top, 0.05), inner / Math.max(right - left, 0.05));
  const map = ([x, y]) => [FINE / 2 + (x - (left + right) / 2) * scale, FINE / 2 + (y - (top + bottom) / 2) * scale];
  const canvas = h("canvas", { width: FINE, height: FINE });
  const context = canvas.getContext("2d", { willReadFrequently: true });
  trace(context, lines, map, PEN);
  const ink = context.getImageData(0, 0, FINE, FINE).data;
  const counts = new Array(SIZE * SIZE).fill(0);
  for (let y = 0; y < FINE; y += 1) {
    for (let x = 0; x < FINE; x += 1) {
      if (ink[4 * (y * FINE + x) + 3] > 127) counts[Math.floor(y / BLOCK) * SIZE + Math.floor(x / BLOCK)] += 1;
    }
  }
  return counts;
}
