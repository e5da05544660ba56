// Selected samples teach the model: more of a class that it knows, or a new class.
import { fill, find, focusHeading, h } from "./dom.js";
import { ask } from "./dialogs.js";
import { clearNotice } from "./jobs.js";
import { changeModel } from "./model_changes.js";
import { changed, isStale, state, whyNot } from "./state.js";
import { count } from "./wording.js";

let slot = null;

/** Take away how teaching ended: the samples are others. */
export function forgetTeaching() {
  if (slot) clearNotice(slot);
}

/** Show what can be done with the selected samples, in `place`. */
export function showTeaching(place) {
  slot ??= h("div", { class: "slot", id: "teaching-job" });
  const n = state.selected.size;
  if (!n) {
    fill(place, slot);
    return;
  }
  const drawn = place.querySelector(".teaching");
  if (drawn?.dataset.version === state.model.version) {
    place.querySelector(".teaching-count").textContent = `${count(n, "sample")} selected`;
    return;
  }
  if (!drawn) clearNotice(slot); // a new selection begins
  const why = whyNot("update");
  const none = h("button", { type: "button", class: "button small ghost", on: { click: deselect } }, "Deselect");
  const head = h("strong", { class: "teaching-count" }, `${count(n, "sample")} selected`);
  if (why) {
    const data = { version: state.model.version };
    fill(place, h("div", { class: "teaching", data }, head, h("span", { class: "quiet" }, why), none), slot);
    return;
  }
  const NEW = "\u0000new";
  const select = h(
    "select",
    { id: "teach-class" },
    state.model.classes.map((name) => h("option", { value: name }, name)),
    h("option", { value: NEW }, "a new class…"),
  );
  select.value = findClosest();
  const name = h("input", {
    id: "teach-name",
    placeholder: "Name",
    "aria-label": "Name of the new class",
    hidden: true,
    autocomplete: "off",
  });
  if (drawn?.querySelector("select")) {
    // The model has changed; what was chosen before stays.
    const chosen = drawn.querySelector("select").value;
    if ([...select.options].some((option) => option.value === chosen)) select.value = chosen;
    name.value = drawn.querySelector("input").value;
    name.hidden = select.value !== NEW;
  }
  select.addEventListener("change", () => {
    name.hidden = select.value !== NEW;
    if (!name.hidden) name.focus();
  });
  const teach = h("button", { type: "submit", class: "button primary small" }, "Teach");
  const form = h(
    "form",
    { class: "teaching", data: { version: state.model.version } },
    head,
    h("label", { for: "teach-class" }, "These are"),
    select,
    name,
    teach,
    none,
  );
  form.addEventListener("submit", (event) => {
    event.preventDefault();
    if (select.value !== NEW) teachClass(select.value);
    else if (name.value.trim()) addClass(name.value.trim());
    else name.focus();
  });
  fill(place, form, slot);
}

function deselect() {
  state.selected.clear();
  changed("selection");
  document.querySelector('[data-focus="tick-all"]')?.focus();
}

/** After a change the selection has done its work. */
function clear(samples) {
  if (samples !== state.samples) return;
  const held = find("teaching")?.contains(document.activeElement) || document.activeElement === document.body;
  state.selected.clear();
  changed("selection");
  if (held) focusHeading(find("title-decisions"));
}

/** Return the class that most of the selected samples are closest to. */
function findClosest() {
  const counts = new Map();
  for (const place of state.selected) {
    const name = state.decisions[place]?.candidate;
    counts.set(name, (counts.get(name) ?? 0) + 1);
  }
  const names = state.model.classes.filter((name) => counts.has(name));
  return names.sort((a, b) => counts.get(b) - counts.get(a))[0] ?? state.model.classes[0];
}

/** Places without a decision are left out: deciding again may have been cancelled. */
const selectedRows = () =>
  [...state.selected]
    .sort((a, b) => a - b)
    .filter((place) => state.decisions[place])
    .map((place) => state.decisions[place].row);

async function teachClass(label) {
  const { samples } = state;
  if (await teachClassOf(slot, label, selectedRows())) clear(samples);
}

// What is changed, and by which samples, is taken before the question: both may be others when it is answered.

/** Ask, and teach the model these rows of the present samples, of a class that it knows. */
export async function teachClassOf(place, label, rows) {
  const { samples, run, model } = state;
  const yes = await ask({
    title: `Teach ${count(rows.length, "sample")} of class ${label}?`,
    text: ["They join the training samples of the class, and the threshold is chosen anew.", fileNote()],
    action: "Teach",
  });
  if (!yes) return null;
  return changeModel(place, model, "update", samples.requestLabeled(rows, label, run), {
    title: "Teaching",
    describe: () => `The model has learned ${count(rows.length, "more sample")} of class ${label}.`,
  });
}

async function addClass(name) {
  const { samples } = state;
  if (await addClassOf(slot, name, selectedRows())) clear(samples);
}

/** Ask, and make a new class of these rows of the present samples. */
export async function addClassOf(place, name, rows) {
  const { samples, model } = state;
  const yes = await ask({
    title: `Make a class “${name}” of ${count(rows.length, "sample")}?`,
    text: ["From now on the model answers with it, too. The samples are then decided again.", fileNote()],
    action: "Add the class",
  });
  if (!yes) return null;
  return changeModel(place, model, "add-class", samples.request({ name, rows }), {
    title: "Adding the class",
    describe: () => `The model now knows the class ${name}, from ${count(rows.length, "sample")}.`,
  });
}

/** Say what a change does to the file. */
export function fileNote() {
  const stale = isStale() ? " The model has changed since these samples were decided." : "";
  return `The model file on the server is changed; the version before is kept and can be restored.${stale}`;
}
