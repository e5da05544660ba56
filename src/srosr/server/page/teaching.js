// Selected samples teach the model: more of a class that it knows, or a new class.
import { fill, find, focusHeading, h } from "./dom.js";
import { clearNotice } from "./jobs.js";
import { changeModel } from "./model_changes.js";
import { changed, state, whyNot } from "./state.js";
import { count } from "./wording.js";

const NEW = "\u0000new";

export function startTeaching() {
  const { label, name } = find("teaching").elements;
  label.addEventListener("change", () => {
    refreshName();
    if (!name.hidden) name.focus();
  });
  find("teaching").addEventListener("submit", teach);
  find("deselect").addEventListener("click", () => {
    state.selected.clear();
    changed("selection");
    find("tick-all").focus();
  });
}

/** Take away how teaching ended: the samples are others. */
export const forgetTeaching = () => clearNotice(find("teaching-job"));

/** Show what can be done with the selected samples. */
export function showTeaching() {
  const form = find("teaching");
  const { label } = form.elements;
  const n = state.selected.size;
  const begins = form.hidden && n > 0;
  form.hidden = !n;
  if (!n) return;
  if (begins) clearNotice(find("teaching-job"));
  find("teaching-count").textContent = `${count(n, "sample")} selected`;
  find("teaching-why").textContent = whyNot("update");
  find("teaching-fields").hidden = whyNot("update") !== null;
  // Where the model has changed, what was chosen before stays.
  const { classes } = state.model;
  const chosen = begins || ![...classes, NEW].includes(label.value) ? findClosest() : label.value;
  const options = classes.map((name) => h("option", { value: name }, name));
  fill(label, options, h("option", { value: NEW }, "a new class…"));
  label.value = chosen;
  refreshName();
}

/** Offer a field for the name of a class that is new. */
function refreshName() {
  const { label, name } = find("teaching").elements;
  name.hidden = name.disabled = label.value !== NEW;
}

/** After a change the selection has done its work. */
function clear(samples) {
  if (samples !== state.samples) return;
  const held = find("teaching").contains(document.activeElement) || document.activeElement === document.body;
  state.selected.clear();
  changed("selection");
  if (held) focusHeading(find("title-decisions"));
}

/** Return the class that most of the selected samples are closest to. */
function findClosest() {
  const chosen = [...state.selected].map((place) => state.decisions[place]?.candidate);
  const counts = state.model.classes.map((name) => chosen.filter((candidate) => candidate === name).length);
  return state.model.classes[counts.indexOf(Math.max(...counts))];
}

async function teach(event) {
  event.preventDefault();
  const { samples } = state;
  const { label, name } = event.target.elements;
  // Places without a decision are left out: deciding again may have been cancelled.
  const places = [...state.selected].toSorted((a, b) => a - b).filter((place) => state.decisions[place]);
  const rows = places.map((place) => state.decisions[place].row);
  const slot = find("teaching-job");
  const done =
    label.value === NEW ? await addClassOf(slot, name.value.trim(), rows) : await teachClassOf(slot, label.value, rows);
  if (done) clear(samples);
}

/** Ask, and teach the model these rows of the present samples, of a class that it knows. */
export function teachClassOf(slot, label, rows) {
  return changeModel(slot, "update", state.samples.requestLabeled(rows, label, state.run), {
    question: `Teach ${count(rows.length, "sample")} of class ${label}?`,
    text: "They join the training samples of the class, and the threshold is chosen anew.",
    action: "Teach",
    title: "Teaching",
    describe: () => `The model has learned ${count(rows.length, "more sample")} of class ${label}.`,
  });
}

/** Ask, and make a new class of these rows of the present samples. */
export function addClassOf(slot, name, rows) {
  return changeModel(slot, "add-class", state.samples.request({ name, rows }), {
    question: `Make a class “${name}” of ${count(rows.length, "sample")}?`,
    text: "From now on the model answers with it, too. The samples are then decided again.",
    action: "Add the class",
    title: "Adding the class",
    describe: () => `The model now knows the class ${name}, from ${count(rows.length, "sample")}.`,
  });
}
