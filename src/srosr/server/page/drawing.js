// A digit drawn by hand becomes what the digits of the demo are: 8 by 8 counts of ink, from 0 to 16.
import { decide } from "./deciding.js";
import { announce, fill, h } from "./dom.js";
import { NumberSet } from "./sample_set.js";
import { state } from "./state.js";
import { count } from "./wording.js";

const SIZE = 8;
const FINE = 32; // the data set's bitmaps are 32 × 32; each value counts the ink of 4 × 4 of them
const BLOCK = FINE / SIZE;
const PEN = 4.4; // the usual width of a stroke there
const PAD = 256;
let strokes = [];
let values = new Array(SIZE * SIZE).fill(0);
let drawings = null; // the set of samples that the last drawing was added to
const typed = new Map(); // cells that were set by keys or clicks; strokes do not wipe them

export function showDrawing(place) {
  if (place.childElementCount) return;
  const pad = h("canvas.pad", { width: PAD, height: PAD, ariaLabel: "Draw a digit here", role: "img" });
  const cells = values.map((_, i) => h("td.cell", { role: "gridcell", tabIndex: i ? -1 : 0 }));
  const rows = Array.from({ length: SIZE }, (_, r) => h("tr", { role: "row" }, cells.slice(r * SIZE, (r + 1) * SIZE)));
  const ariaLabel = "The 8 by 8 values; arrow keys move, space changes a cell";
  const grid = h("table.cells", { role: "grid", ariaLabel }, h("tbody", rows));
  const go = h("button.button.primary", { onclick: decideOnDrawing }, "Decide on the drawing");

  const refresh = () => {
    cells.forEach((cell, i) => {
      const gray = Math.round(255 * (1 - values[i] / 16)); // ink on paper, in both themes
      cell.style.backgroundColor = `rgb(${gray}, ${gray}, ${gray})`;
      cell.ariaLabel = `Row ${Math.floor(i / SIZE) + 1}, column ${(i % SIZE) + 1}: ${values[i]} of 16`;
    });
    go.disabled = !values.some(Boolean);
  };
  const clear = () => {
    strokes = [];
    typed.clear();
    values.fill(0);
    paintPad(pad);
    refresh();
  };
  const change = (i) => {
    values[i] = values[i] >= 16 ? 0 : values[i] >= 8 ? 16 : 8;
    typed.set(i, values[i]);
    refresh();
  };
  wirePad(pad, refresh);
  grid.addEventListener("keydown", (event) => handleKey(event, cells, change));
  grid.addEventListener("click", ({ target }) => cells.includes(target) && change(cells.indexOf(target)));
  fill(
    place,
    h(
      "div.drawing",
      h("figure", pad, h("figcaption", "Draw a digit")),
      h("figure", grid, h("figcaption", "What the model sees. Keyboard: arrows and space.")),
    ),
    h("div.actions", go, h("button.button", { onclick: clear }, "Clear")),
  );
  paintPad(pad);
  refresh();
}

/** Take strokes from the pad; `refresh` shows the values they become. */
function wirePad(pad, refresh) {
  let pointer = null; // one draws at a time: a second finger, or another button, does not
  const addPoint = (event) => {
    const box = pad.getBoundingClientRect();
    strokes.at(-1).push([(event.clientX - box.left) / box.width, (event.clientY - box.top) / box.height]);
    paintPad(pad);
  };
  pad.addEventListener("pointerdown", (event) => {
    if (pointer !== null || event.button !== 0) return;
    pointer = event.pointerId;
    pad.setPointerCapture(pointer);
    strokes.push([]);
    addPoint(event);
  });
  pad.addEventListener("pointermove", (event) => {
    if (event.pointerId === pointer) addPoint(event);
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
}

function paintPad(pad) {
  const context = pad.getContext("2d");
  context.clearRect(0, 0, PAD, PAD);
  trace(context, strokes, ([x, y]) => [x * PAD, y * PAD], (PEN / FINE) * PAD);
}

/** Decide on the drawing, beside those before. */
function decideOnDrawing() {
  const before = drawings && state.samples === drawings ? drawings.items : [];
  const rows = [...before, [...values]];
  const names = rows.map((_, i) => `Drawing ${i + 1}`);
  drawings = new NumberSet(rows, { names, shape: [SIZE, SIZE], title: count(rows.length, "drawing") });
  decide(drawings, { added: before.length > 0 });
}

function handleKey(event, cells, change) {
  const place = cells.indexOf(event.target);
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
    change(place);
    announce(`${values[place]} of 16`);
  } else if (next !== undefined) {
    event.preventDefault();
    cells[place].tabIndex = -1;
    cells[next].tabIndex = 0;
    cells[next].focus();
  }
}

function trace(context, lines, map, width) {
  context.lineCap = context.lineJoin = "round";
  context.lineWidth = width;
  context.strokeStyle = "#111";
  for (const line of lines) {
    context.beginPath();
    context.moveTo(...map(line[0]));
    for (const point of line) context.lineTo(...map(point).map((value) => value + 0.01)); // a point alone is a dot
    context.stroke();
  }
}

/** Return 64 values: the strokes cropped, scaled to the full height, centered, as a bitmap, counted in blocks. */
function rasterize(lines) {
  const xs = lines.flat().map((p) => p[0]);
  const ys = lines.flat().map((p) => p[1]);
  const [left, right, top, bottom] = [Math.min(...xs), Math.max(...xs), Math.min(...ys), Math.max(...ys)];
  const inner = FINE - PEN;
  const scale = Math.min(inner / Math.max(bottom - top, 0.05), inner / Math.max(right - left, 0.05));
  const map = ([x, y]) => [FINE / 2 + (x - (left + right) / 2) * scale, FINE / 2 + (y - (top + bottom) / 2) * scale];
  const context = new OffscreenCanvas(FINE, FINE).getContext("2d", { willReadFrequently: true });
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
