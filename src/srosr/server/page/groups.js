// Rejected samples that belong together: look at them, give them a name, and they are a class.
import { modelPath, streamResult } from "./api.js";
import { announce, fill, find, focusHeading, h, keepFocus } from "./dom.js";
import { openWhy } from "./explanation.js";
import { dropJob, runJob, showError } from "./jobs.js";
import { thumbnail } from "./pictures.js";
import { on, state, whyNot } from "./state.js";
import { addClassOf, teachClassOf } from "./teaching.js";
import { count, listOr, number, percent } from "./wording.js";

let cards = []; // {root, refresh} of each group
let found = null; // the groups on the page: {samples, element}, or null
let grouping = null; // the samples of the job that runs
let minSize = "";

export function startGroups() {
  on("samples decisions model", () => {
    if (found && found.samples !== state.samples) found = null;
    if (grouping && grouping !== state.samples) dropJob(slot);
    keepFocus(find("groups"), draw);
  });
}

const slot = h("div", { class: "slot" });

function draw() {
  const place = find("groups");
  const rejected = state.decisions.filter((d) => d.verdict === "rejected").length;
  if (!state.samples || (!state.decisions.length && !found)) {
    fill(
      place,
      h(
        "div",
        { class: "card empty" },
        h("p", {}, "Decide on samples first; then those that were rejected can be grouped here."),
        h("a", { href: "#decide", class: "button" }, "To the samples"),
      ),
    );
    return;
  }
  const size = h("input", { type: "number", id: "min-size", min: 2, value: minSize, placeholder: "5" });
  size.addEventListener("input", () => {
    minSize = size.value;
  });
  fill(
    place,
    h(
      "div",
      { class: "card" },
      h(
        "p",
        {},
        rejected
          ? `Unknown: ${number(rejected)} of ${count(state.decisions.length, "sample")}. ` +
              "Those that have much in common may be a class that the model has not met yet."
          : "No sample is unknown: there is nothing to group.",
      ),
      h(
        "div",
        { class: "actions" },
        h(
          "button",
          {
            type: "button",
            id: "find-groups",
            class: "button primary",
            disabled: !rejected && !found,
            on: { click: findGroups },
          },
          "Group the rejected samples",
        ),
        h("span", { class: "field inline" }, h("label", { for: "min-size" }, "Smallest group"), size),
      ),
      slot,
    ),
    found?.element, // the same cards as before, with what was typed into them
  );
  if (found) for (const card of cards) card.refresh();
}

async function findGroups() {
  const { samples, model } = state;
  if (minSize && !(Number.isInteger(Number(minSize)) && Number(minSize) >= 2)) {
    showError(slot, { message: "Smallest group: give a whole number of at least 2.", status: 422 });
    find("min-size").focus();
    return;
  }
  const parameters = minSize ? { min_size: Number(minSize) } : {};
  grouping = samples;
  const discovery = await runJob(slot, "Grouping", ({ signal, report }) =>
    streamResult(modelPath(model.name, "discover"), report, { ...samples.request(parameters), signal }),
  );
  if (grouping === samples) grouping = null;
  if (!discovery || samples !== state.samples) return;
  if (state.model.version !== model.version || discovery.version !== model.version) {
    showError(slot, { message: "The model has changed meanwhile: group again.", status: 409 });
    return;
  }
  found = { samples, element: drawDiscovery(discovery) };
  keepFocus(find("groups"), draw);
  announce(`${count(discovery.groups.length, "group")} found.`);
}

function drawDiscovery({ groups, noise }) {
  cards = groups.map(drawGroup);
  const alone = noise.length ? ` ${count(noise.length, "sample")} fit${noise.length === 1 ? "s" : ""} in none.` : "";
  return h(
    "div",
    { class: "discovery" },
    h(
      "p",
      {},
      groups.length
        ? `${count(groups.length, "group")} found.${alone}`
        : `No group found: the rejected samples have too little in common.${alone}`,
    ),
    h(
      "div",
      { class: "group-cards" },
      cards.map((card) => card.root),
    ),
  );
}

/** Open a sample of a group; next and previous are others of it. */
function openMember(row, rows) {
  const places = new Map(state.decisions.map((decision, place) => [decision.row, place]));
  if (!places.has(row)) return; // the samples are being decided again
  openWhy(
    places.get(row),
    rows.map((other) => places.get(other)).filter((place) => place !== undefined),
  );
}

function drawGroup(group) {
  const chosen = new Set(group.rows);
  let className = null; // the class it has become
  const tile = (row) => {
    const name = state.samples.describe(row);
    const picture = thumbnail(state.samples, row, "medium");
    const open = () => openMember(row, group.rows);
    return h(
      "button",
      { type: "button", class: "tile", title: name, "aria-label": `${name}: why`, on: { click: open } },
      picture ?? h("span", { class: "tile-text" }, name),
    );
  };
  const total = h("span", {});
  const submit = h("button", { type: "submit", class: "button primary" }, "Make it a class");
  const relabel = () => {
    total.textContent = `${chosen.size} of ${group.rows.length} chosen`;
    submit.disabled = !chosen.size;
  };
  const member = (row) => {
    const box = h("input", { type: "checkbox", checked: true });
    box.addEventListener("change", () => {
      if (box.checked) chosen.add(row);
      else chosen.delete(row);
      relabel();
    });
    return h(
      "label",
      { class: "member" },
      box,
      thumbnail(state.samples, row),
      h("span", { class: "name" }, state.samples.describe(row)),
    );
  };
  const id = `group-name-${group.number}`;
  const name = h("input", { id, autocomplete: "off", required: true, maxLength: 200 });
  const job = h("div", { class: "slot" });
  const form = h(
    "form",
    { class: "group-form" },
    h(
      "details",
      { class: "fold" },
      h("summary", {}, "Members, ", total),
      h(
        "div",
        { class: "members", tabindex: 0, role: "group", "aria-label": `Members of group ${group.number + 1}` },
        group.rows.map(member),
      ),
    ),
    whyNot("add-class")
      ? h("p", { class: "quiet" }, whyNot("add-class"))
      : h("div", { class: "field row" }, h("label", { for: id }, "Name"), name, submit),
    job,
  );
  form.addEventListener("submit", async (event) => {
    event.preventDefault();
    const title = name.value.trim();
    if (!title) return name.focus();
    // Two groups may be of one class.
    const make = state.model.classes.includes(title) ? teachClassOf : addClassOf;
    const done = await make(
      job,
      title,
      group.rows.filter((row) => chosen.has(row)),
    );
    if (!done) return;
    const held = form.contains(document.activeElement);
    className = title;
    refresh();
    if (held) focusHeading(form);
  });
  relabel();
  const nearest = group.nearest.slice(0, 3).map(({ label, share }) => `${label} (${percent(share)})`);
  const done = h("p", { class: "done", hidden: true });
  const heading = `group-title-${group.number}`;
  const root = h(
    "article",
    { class: "card group", "aria-labelledby": heading },
    h(
      "div",
      { class: "card-head" },
      h("h3", { id: heading }, `Group ${group.number + 1}`),
      h("span", { class: group.tight ? "tag" : "tag loose" }, group.tight ? "tight" : "loose"),
    ),
    h(
      "p",
      { class: "quiet" },
      `${count(group.size, "sample")}, tightness ${group.tightness.toFixed(2)}: `,
      group.tight ? "likely one class. " : "may be a mixture. ",
      `Closest to ${listOr(nearest, "and")}.`,
    ),
    h("div", { class: "tiles" }, group.typical.slice(0, 8).map(tile)),
    done,
    form,
  );
  // A class may be taken back: by restoring a version, or by removing it.
  const refresh = () => {
    const named = className !== null && state.model.classes.includes(className);
    root.classList.toggle("named", named);
    form.hidden = named;
    done.hidden = !named;
    done.textContent = named ? `Now of the class ${className}.` : "";
  };
  return { root, refresh };
}
