// Samples as the user gave them, and the requests that carry them: numbers as JSON, files as they are.
import { h } from "./dom.js";
import { paint } from "./pictures.js";
import { count } from "./wording.js";

const LABEL_NAMES = ["label", "class", "target", "y", "species", "category"];
const KEPT_BYTES = 16e6; // larger tables are not kept in the page to draw their rows and to show their classes
const PICTURES = /\.(png|jpe?g|gif|bmp|webp|tiff?|pgm|ppm)$/i;
const TEXTS = /\.(csv|tsv|txt)$/i;
const TABLES = /\.(csv|tsv|txt|npy|npz|parquet|pq)$/i;

export const isPicture = (file) => file.type.startsWith("image/") || PICTURES.test(file.name);
export const isTable = (file) => TABLES.test(file.name);

/** Samples of which any can be sent alone, with their true classes where these are known. */
class ItemSet {
  constructor(items, labels) {
    Object.assign(this, { items, labels });
  }

  get hasLabels() {
    return this.labels !== null;
  }

  truth(row) {
    return this.labels?.[row] ?? null;
  }

  /** Return the parts of a request about all samples, or those of the rows in its parameters. */
  request({ rows = [...this.items.keys()], ...fields } = {}, { labels = false } = {}) {
    if (labels) fields.labels = rows.map((row) => this.labels[row]);
    return this.pack(
      rows.map((row) => this.items[row]),
      fields,
    );
  }

  /** Return the request about one sample. */
  requestOne(row) {
    return this.request({ rows: [row] });
  }

  /** Return the request with some rows, all of one class. */
  requestLabeled(rows, label) {
    return this.request({ rows, labels: rows.map(() => label) });
  }
}

/** Rows of numbers: picked, drawn. */
export class NumberSet extends ItemSet {
  constructor(rows, { title, labels = null, names = null, shape }) {
    super(rows, labels);
    Object.assign(this, { title, names, shape });
  }

  describe(row) {
    return this.names?.[row] ?? `Row ${row}`;
  }

  picture(row) {
    return this.items[row] ? paint(this.items[row], this.shape) : null;
  }

  pack(samples, fields) {
    return { json: { samples, ...fields } };
  }
}

/** Pictures, each a file. */
export class PictureSet extends ItemSet {
  constructor(files) {
    // Pictures in folders are labeled by the folder, as the command line reads them.
    const folders = files.map((file) => (file.folderPath ?? file.webkitRelativePath).split("/").at(-2));
    super(files, folders.every(Boolean) && new Set(folders).size > 1 ? folders : null);
    this.addresses = new Map();
  }

  get title() {
    return this.items.length === 1 ? this.items[0].name : count(this.items.length, "picture");
  }

  describe(row) {
    return this.items[row]?.name ?? `Row ${row}`;
  }

  picture(row) {
    if (!this.items[row]) return null;
    if (!this.addresses.has(row)) this.addresses.set(row, URL.createObjectURL(this.items[row]));
    return h("img", { src: this.addresses.get(row), alt: "", loading: "lazy" });
  }

  pack(files, fields) {
    return { body: makeForm(files, fields) };
  }

  close() {
    for (const address of this.addresses.values()) URL.revokeObjectURL(address);
  }
}

/** A file with a table, and how to read it. */
export class TableSet {
  reading = { label: "", ignore: [], header: true, by_name: false, drop_missing: false };
  /** Lines that are not blank and what is between cells, where the file is small enough and has no quotes. */
  lines = null;
  separator = ",";

  constructor(file, columns, shape) {
    Object.assign(this, { file, columns, shape });
  }

  /** Return the table read in another way: other samples, which have explanations, groups and measures of their own. */
  readAs(reading) {
    if (JSON.stringify(reading) === JSON.stringify(this.reading)) return this;
    const { file, columns, lines, separator, shape } = this;
    return Object.assign(new TableSet(file, columns, shape), { reading, lines, separator });
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
    return this.hasLabels ? (this.cells(row)?.[this.placeOf(this.reading.label)]?.trim() ?? null) : null;
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

  request(parameters = {}, { labels = false } = {}) {
    const { label, ignore, header, by_name, drop_missing } = this.reading;
    const ignored = label && !labels ? [...ignore, label] : ignore;
    const fields = { ...parameters };
    if (label && labels) fields.label = label;
    if (ignored.length) fields.ignore = ignored;
    if (!header) fields.header = false;
    if (by_name) fields.by_name = true;
    if (drop_missing) fields.drop_missing = true;
    return { body: makeForm([this.file], fields) };
  }

  /** A table goes as a whole. */
  requestOne(row) {
    return this.request({ row });
  }

  /** Labels beside a table are one for each of its rows; those of rows that are not used do not matter. */
  requestLabeled(rows, label, run) {
    return this.request({ rows, labels: new Array(run.rows + run.dropped).fill(label) });
  }
}

function makeForm(files, fields) {
  const form = new FormData();
  for (const [name, value] of Object.entries(fields)) {
    form.append(name, typeof value === "string" ? value : JSON.stringify(value));
  }
  for (const file of files) form.append("files", file, file.name);
  return form;
}

/** Make a set of a table for a model: look at its first line, and guess which column has the classes. */
export async function openTable(file, { features, picture_shape: shape }) {
  if (!TEXTS.test(file.name)) return new TableSet(file, [], null);
  const small = file.size <= KEPT_BYTES;
  const text = await (small ? file : file.slice(0, 262_144)).text();
  const lines = text.split(/\r?\n/).filter((line) => line.trim());
  const line = lines[0] ?? "";
  const separator = ["\t", ";", ","].find((mark) => line.includes(mark)) ?? ",";
  const cells = line.split(separator).map((cell) => cell.trim().replace(/^"(.*)"$/, "$1"));
  const numeric = cells.every((cell) => Number.isFinite(Number(cell)));
  const set = new TableSet(file, numeric ? [] : cells, shape);
  set.separator = separator;
  set.reading.header = !numeric;
  if (small && !text.includes('"')) set.lines = lines;
  if (!numeric && cells.length > features) {
    set.reading.label = cells.find((cell) => LABEL_NAMES.includes(cell.toLowerCase())) ?? "";
  }
  return set;
}
