// Rejected samples that belong together: look at them, give them a name, and they are a class.
import { modelPath, streamResult } from "./api.js";
import { announce, fill, find, h } from "./dom.js";
import { openWhy } from "./explanation.js";
import { runJob } from "./jobs.js";
import { thumbnail } from "./pictures.js";
import { on, state, whyNot } from "./state.js";
import { addClassOf } from "./teaching.js";
import { count, listOr, number, percent } from "./wording.js";

let discovery = null;
let madeOf = null;
let minSize = "";
const named = new Map(); // number of a group → the class it has become

export function startGroups() {
  on("samples", () => {
    if (madeOf !== state.samples) {
      discovery = null;
      named.clear();
    }
    draw();
  });
  on("decisions model", draw);
}

const slot = h("div", { class: "slot" });

function draw() {
  const place = find("groups");
  const rejected = state.decisions.filter((d) => d.verdict === "rejected").length;
  if (!state.samples || !state.decisions.length) {
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
  if (discovery && madeOf === state.samples && place.querySelector(".group-cards")) {
    refreshCards(place);
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
            disabled: !rejected,
            on: { click: findGroups },
          },
          "Group the rejected samples",
        ),
        h("span", { class: "field inline" }, h("label", { for: "min-size" }, "Smallest group"), size),
      ),
      slot,
    ),
    discovery && madeOf === state.samples ? drawDiscovery() : null,
  );
}

async function findGroups() {
  const samples = state.samples;
  const parameters = minSize ? { min_size: Number(minSize) } : {};
  const found = await runJob(slot, "Grouping", ({ signal, report }) =>
    streamResult(modelPath(state.model.name, "discover"), report, { ...samples.request(parameters), signal }),
  );
  if (!found) return;
  discovery = found;
  madeOf = samples;
  named.clear();
  find("groups").querySelector(".discovery")?.remove();
  draw();
  announce(`${count(found.groups.length, "group")} found.`);
}

function drawDiscovery() {
  const { groups, noise } = discovery;
  const alone = noise.length ? ` ${count(noise.length, "sample")} fit${noise.length === 1 ? "s" : ""} in none.` : "";
  return h(
    "div",
    { class: "discovery" },
    h(
      "p",
      { role: "status" },
      groups.length
        ? `${count(groups.length, "group")} found.${alone}`
        : `No group found: the rejected samples have too little in common.${alone}`,
    ),
    h("div", { class: "group-cards" }, groups.map(drawGroup)),
  );
}

/** Keep the cards, with what was typed into them, and mark those that have become classes. */
function refreshCards(place) {
  for (const card of place.querySelectorAll(".group")) {
    const name = named.get(Number(card.dataset.number));
    if (name && !card.classList.contains("named")) {
      card.classList.add("named");
      fill(card.querySelector(".group-form"), h("p", { class: "done" }, `Now the class ${name}.`));
    }
  }
}

function drawGroup(group) {
  const chosen = new Set(group.rows);
  const places = new Map(state.decisions.map((decision, place) => [decision.row, place]));
  const tile = (row) => {
    const name = state.samples.describe(row);
    const picture = thumbnail(state.samples, row, "medium");
    const open = () =>
      openWhy(
        places.get(row),
        group.rows.map((other) => places.get(other)).filter((p) => p !== undefined),
      );
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
        { class: "members scroll-y", tabindex: 0, role: "group", "aria-label": `Members of group ${group.number + 1}` },
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
    const done = await addClassOf(
      job,
      title,
      group.rows.filter((row) => chosen.has(row)),
    );
    if (!done) return;
    named.set(group.number, title);
    refreshCards(find("groups"));
  });
  relabel();
  const nearest = group.nearest.slice(0, 3).map(({ label, share }) => `${label} (${percent(share)})`);
  return h(
    "article",
    { class: "card group", data: { number: group.number }, "aria-label": `Group ${group.number + 1}` },
    h(
      "div",
      { class: "card-head" },
      h("h3", {}, `Group ${group.number + 1}`),
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
    form,
  );
}
