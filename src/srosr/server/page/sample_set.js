// Samples as the user gave them, and the requests that carry them: numbers as JSON, files as they are.
import { count } from "./wording.js";
import { paint } from "./pictures.js";

const LABEL_NAMES = ["label", "class", "target", "y", "species", "category"];
const KEPT_BYTES = 16e6; // larger tables are not kept in the page to draw their rows and to show their classes
const PICTURES = /\.(png|jpe?g|gif|bmp|webp|tiff?|pgm|ppm)$/i;
const TABLES = /\.(csv|tsv|txt|npy|npz|parquet|pq)$/i;

export const isPicture = (file) => file.type.startsWith("image/") || PICTURES.test(file.name);
export const isTable = (file) => TABLES.test(file.name);

/** Rows of numbers: picked, drawn. */
export class NumberSet {
  constructor(rows, { labels = null, names = null, shape = null, origin }) {
    Object.assign(this, { rows, labels, names, shape, origin });
  }

  get title() {
    return this.origin === "drawn"
      ? count(this.rows.length, "drawing")
      : `${count(this.rows.length, "sample")} ${this.origin}`;
  }

  get hasLabels() {
    return this.labels !== null && this.labels.every((label) => label !== null);
  }

  describe(row) {
    return this.names?.[row] ?? `Row ${row}`;
  }

  truth(row) {
    return this.labels?.[row] ?? null;
  }

  picture(row) {
    return this.shape && this.rows[row] ? paint(this.rows[row], this.shape) : null;
  }

  /** Return the parts of a request; with `only`, of these rows alone. */
  request(parameters = {}, { only = null, labels = false } = {}) {
    const { rows, ...rest } = parameters;
    const chosen = only ?? rows ?? this.rows.map((_, i) => i);
    const json = { samples: chosen.map((row) => this.rows[row]), ...rest };
    if (labels) json.labels = chosen.map((row) => this.labels[row]);
    return { json };
  }

  /** Return the request with some rows, all of one class. */
  requestLabeled(rows, label) {
    return this.request({ labels: rows.map(() => label) }, { only: rows });
  }
}

/** A file with a table, and how to read it. */
export class TableSet {
  constructor(file, columns) {
    this.file = file;
    this.columns = columns;
    this.reading = { label: "", ignore: [], header: true, by_name: false, drop_missing: false };
    /** Lines that are not blank and what is between cells, where the file is small enough and has no quotes. */
    this.lines = null;
    this.separator = ",";
    this.shape = null;
  }

  /** Return the table read in another way: other samples, which have explanations, groups and measures of their own. */
  readAs(reading) {
    if (JSON.stringify(reading) === JSON.stringify(this.reading)) return this;
    const { lines, separator, shape } = this;
    return Object.assign(new TableSet(this.file, this.columns), { reading, lines, separator, shape });
  }

  get title() {
    return this.file.name;
  }

  get hasLabels() {
    return this.reading.label !== "";
  }

  describe(row) {
    return `Row ${row}`;
  }

  /** Return the cells of a row, null if its line is not kept. */
  cells(row) {
    return this.lines?.[row + (this.reading.header ? 1 : 0)]?.split(this.separator) ?? null;
  }

  /** Return the place of a column, by its name or, where columns have none, by its number; -1 if there is none. */
  placeOf(name) {
    if (this.columns.length) return this.columns.indexOf(name);
    return /^\d+$/.test(name) ? Number(name) : -1;
  }

  truth(row) {
    const place = this.reading.label ? this.placeOf(this.reading.label) : -1;
    return place < 0 ? null : (this.cells(row)?.[place]?.trim() ?? null);
  }

  /** Draw a row whose numbers are gray values; null if its line is not plain numbers in the order of the model. */
  picture(row) {
    const cells = this.shape && !this.reading.by_name ? this.cells(row) : null;
    if (!cells) return null;
    const left = [...this.reading.ignore, this.reading.label].filter(Boolean).map((name) => this.placeOf(name));
    const values = cells.filter((_, i) => !left.includes(i)).map(Number);
    const fits = values.length === this.shape[0] * this.shape[1] && values.every(Number.isFinite);
    return fits ? paint(values, this.shape) : null;
  }

  request(parameters = {}, { only = null, labels = false } = {}) {
    const { label, ignore, header, by_name: byName, drop_missing: dropMissing } = this.reading;
    const fields = { ...parameters };
    if (only) fields.rows = only;
    if (label && labels) fields.label = label;
    const ignored = label && !labels ? [...ignore, label] : ignore;
    if (ignored.length) fields.ignore = ignored;
    if (!header) fields.header = false;
    if (byName) fields.by_name = true;
    if (dropMissing) fields.drop_missing = true;
    return { body: makeForm([this.file], fields) };
  }

  /** Labels beside a table are one for each of its rows; those of rows that are not used do not matter. */
  requestLabeled(rows, label, run) {
    return this.request({ rows, labels: new Array(run.rows + run.dropped).fill(label) });
  }
}

/** Pictures, each a file. */
export class PictureSet {
  constructor(files) {
    this.files = files;
    // Pictures in folders are labeled by the folder, as the command line reads them.
    const folders = files.map((file) => (file.folderPath ?? file.webkitRelativePath ?? "").split("/").at(-2) ?? null);
    this.labels = folders.every(Boolean) && new Set(folders).size > 1 ? folders : null;
    this.addresses = new Map();
  }

  get title() {
    return this.files.length === 1 ? this.files[0].name : count(this.files.length, "picture");
  }

  get hasLabels() {
    return this.labels !== null;
  }

  describe(row) {
    return this.files[row]?.name ?? `Row ${row}`;
  }

  truth(row) {
    return this.labels?.[row] ?? null;
  }

  picture(row) {
    if (!this.files[row]) return null;
    if (!this.addresses.has(row)) this.addresses.set(row, URL.createObjectURL(this.files[row]));
    const image = document.createElement("img");
    image.src = this.addresses.get(row);
    image.alt = "";
    image.loading = "lazy";
    return image;
  }

  request(parameters = {}, { only = null, labels = false } = {}) {
    const { rows, ...rest } = parameters;
    const chosen = only ?? rows ?? this.files.map((_, i) => i);
    if (labels) rest.labels = chosen.map((row) => this.labels[row]);
    return {
      body: makeForm(
        chosen.map((row) => this.files[row]),
        rest,
      ),
    };
  }

  requestLabeled(rows, label) {
    return this.request({ labels: rows.map(() => label) }, { only: rows });
  }

  close() {
    for (const address of this.addresses.values()) URL.revokeObjectURL(address);
    this.addresses.clear();
  }
}

function makeForm(files, fields) {
  const form = new FormData();
  for (const [name, value] of Object.entries(fields)) {
    if (value === null || value === undefined) continue;
    form.append(name, typeof value === "string" ? value : JSON.stringify(value));
  }
  for (const file of files) form.append("files", file, file.name);
  return form;
}

/** Make a set of a table for a model: look at its first line, and guess which column has the classes. */
export async function openTable(file, { features, picture_shape: shape }) {
  if (!/\.(csv|tsv|txt)$/i.test(file.name)) return new TableSet(file, []);
  const text = await (file.size <= KEPT_BYTES ? file : file.slice(0, 262_144)).text();
  const lines = text
    .replace(/^\uFEFF/, "")
    .split(/\r?\n/)
    .filter((line) => line.trim());
  const line = lines[0] ?? "";
  const separator = ["\t", ";", ","].find((mark) => line.includes(mark)) ?? ",";
  const cells = line.split(separator).map((cell) => cell.trim().replace(/^"(.*)"$/, "$1"));
  const numeric = cells.every((cell) => cell === "" || Number.isFinite(Number(cell)));
  const set = new TableSet(file, numeric ? [] : cells);
  set.reading.header = !numeric;
  Object.assign(set, { shape, separator });
  if (file.size <= KEPT_BYTES && !text.includes('"')) set.lines = lines;
  if (!numeric && cells.length > features) {
    set.reading.label = cells.find((cell) => LABEL_NAMES.includes(cell.toLowerCase())) ?? "";
  }
  return set;
}
