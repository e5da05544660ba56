// Selected samples teach the model: more of a class that it knows, or a new class.
import { fill, h } from "./dom.js";
import { ask } from "./dialogs.js";
import { changeModel } from "./model_changes.js";
import { changed, isStale, state, whyNot } from "./state.js";
import { count } from "./wording.js";

let slot = null;

/** Show what can be done with the selected samples, in `place`. */
export function showTeaching(place) {
  slot ??= h("div", { class: "slot", id: "teaching-job" });
  const n = state.selected.size;
  if (!n) {
    fill(place, slot);
    return;
  }
  if (place.querySelector(".teaching")) {
    place.querySelector(".teaching-count").textContent = `${count(n, "sample")} selected`;
    return;
  }
  const why = whyNot("update");
  const none = h("button", { type: "button", class: "button small ghost", on: { click: clear } }, "Deselect");
  const head = h("strong", { class: "teaching-count" }, `${count(n, "sample")} selected`);
  if (why) {
    fill(place, h("div", { class: "teaching" }, head, h("span", { class: "quiet" }, why), none), slot);
    return;
  }
  const NEW = "\u0000new";
  const select = h(
    "select",
    { id: "teach-class" },
    state.model.classes.map((name) => h("option", { value: name }, name)),
    h("option", { value: NEW }, "a new class…"),
  );
  const name = h("input", {
    id: "teach-name",
    placeholder: "Name",
    "aria-label": "Name of the new class",
    hidden: true,
    autocomplete: "off",
  });
  select.addEventListener("change", () => {
    name.hidden = select.value !== NEW;
    if (!name.hidden) name.focus();
  });
  const teach = h("button", { type: "submit", class: "button primary small" }, "Teach");
  const form = h(
    "form",
    { class: "teaching" },
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

function clear() {
  state.selected.clear();
  changed("decisions selection");
}

const selectedRows = () => [...state.selected].sort((a, b) => a - b).map((place) => state.decisions[place].row);

async function teachClass(label) {
  const rows = selectedRows();
  const yes = await ask({
    title: `Teach ${count(rows.length, "sample")} of class ${label}?`,
    text: ["They join the training samples of the class, and the threshold is chosen anew.", fileNote()],
    action: "Teach",
  });
  if (!yes) return;
  await changeModel(slot, "update", state.samples.requestLabeled(rows, label, state.run), {
    title: "Teaching",
    describe: () => `The model has learned ${count(rows.length, "more sample")} of class ${label}.`,
  });
}

async function addClass(name) {
  const rows = selectedRows();
  if (await addClassOf(slot, name, rows)) clear();
}

/** Ask, and make a new class of these rows of the present samples. */
export async function addClassOf(place, name, rows) {
  const yes = await ask({
    title: `Make a class “${name}” of ${count(rows.length, "sample")}?`,
    text: ["From now on the model answers with it, too. The samples are then decided again.", fileNote()],
    action: "Add the class",
  });
  if (!yes) return null;
  return changeModel(place, "add-class", state.samples.request({ name, rows }), {
    title: "Adding the class",
    describe: () => `The model now knows the class ${name}, from ${count(rows.length, "sample")}.`,
  });
}

/** Say what a change does to the file. */
export function fileNote() {
  const stale = isStale() ? " The model has changed since these samples were decided." : "";
  return `The model file on the server is changed; the version before is kept and can be restored.${stale}`;
}
