// Rejected samples that belong together: look at them, give them a name, and they are a class.
import { announce, fill, find, focusHeading, h, keepFocus } from "./dom.js";
import { openWhy } from "./explanation.js";
import { thumbnail } from "./pictures.js";
import { workOnSamples } from "./sample_work.js";
import { decided, on, state, whyNot } from "./state.js";
import { addClassOf, teachClassOf } from "./teaching.js";
import { count, listAnd, number, percent } from "./wording.js";

let found = null; // the groups on the page: {samples, cards}, or null

export function startGroups() {
  find("grouping").addEventListener("submit", findGroups);
  on("samples decisions model", refresh);
}

function refresh() {
  if (found && found.samples !== state.samples) {
    found = null;
    fill(find("discovery"));
  }
  const rejected = decided("rejected").length;
  const empty = !state.decisions.length && !found;
  find("no-groups").hidden = !empty;
  find("grouping").hidden = empty;
  find("find-groups").disabled = !rejected && !found;
  find("groups-brief").textContent = rejected
    ? `Unknown: ${number(rejected)} of ${count(state.decisions.length, "sample")}. ` +
      "Those that have much in common may be a class that the model has not met yet."
    : "No sample is unknown: there is nothing to group.";
  for (const card of found?.cards ?? []) card.refresh();
}

async function findGroups(event) {
  event.preventDefault();
  const { samples } = state;
  const size = find("min-size").value;
  const parts = samples.request(size ? { min_size: Number(size) } : {});
  const discovery = await workOnSamples(find("groups-job"), "Grouping", "discover", parts);
  if (!discovery) return;
  found = { samples, cards: discovery.groups.map(drawGroup) };
  keepFocus(find("discovery"), () => drawDiscovery(discovery));
  announce(`${count(discovery.groups.length, "group")} found.`);
}

function drawDiscovery({ groups, noise }) {
  const alone = noise.length ? ` ${count(noise.length, "sample fits", "samples fit")} in none.` : "";
  const words = groups.length
    ? `${count(groups.length, "group")} found.`
    : "No group found: the rejected samples have too little in common.";
  const roots = found.cards.map((card) => card.root);
  fill(find("discovery"), h("p", words, alone), h("div.group-cards", roots));
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

/** Return the card of a group, with a function that says whether it is a class now. */
function drawGroup(group) {
  const { samples } = state;
  const title = `Group ${group.number + 1}`;
  const nearest = group.nearest.slice(0, 3).map(({ label, share }) => `${label} (${percent(share)})`);
  const form = drawForm(group, title);
  const done = h("p.done");
  const heading = `group-title-${group.number}`;
  const tile = (row) => {
    const name = samples.describe(row);
    const picture = thumbnail(samples, row, "medium") ?? h("span.tile-text", name);
    const open = () => openMember(row, group.rows);
    return h("button.tile", { title: name, ariaLabel: `${name}: why`, onclick: open }, picture);
  };
  const root = h(
    "article.card.group",
    { "aria-labelledby": heading },
    h(
      "div.card-head",
      h("h3", { id: heading }, title),
      group.tight ? h("span.tag", "tight") : h("span.tag.loose", "loose"),
    ),
    h(
      "p.quiet",
      `${count(group.size, "sample")}, tightness ${group.tightness.toFixed(2)}: `,
      group.tight ? "likely one class. " : "may be a mixture. ",
      `Closest to ${listAnd(nearest)}.`,
    ),
    h("div.tiles", group.typical.slice(0, 8).map(tile)),
    done,
    form,
  );
  // A class may be taken back: by restoring a version, or by removing it.
  const refresh = () => {
    const { className } = form.dataset;
    const named = state.model.classes.includes(className);
    root.classList.toggle("named", named);
    form.hidden = named;
    done.hidden = !named;
    done.textContent = `Now of the class ${className}.`;
  };
  form.addEventListener("submit", async (event) => {
    event.preventDefault();
    const name = form.elements.name.value.trim();
    // Two groups may be of one class.
    const make = state.model.classes.includes(name) ? teachClassOf : addClassOf;
    if (!(await make(form.lastElementChild, name, readMembers(form)))) return;
    const held = form.contains(document.activeElement);
    form.dataset.className = name;
    refresh();
    if (held) focusHeading(form);
  });
  refresh();
  return { root, refresh };
}

const readMembers = (form) => new FormData(form).getAll("member").map(Number);

/** Build the form that makes a group a class: its members, and the name. */
function drawForm({ rows, number: i }, title) {
  const { samples } = state;
  const member = (row) =>
    h(
      "label.member",
      h("input", { type: "checkbox", name: "member", value: row, checked: true }),
      thumbnail(samples, row),
      h("span.name", samples.describe(row)),
    );
  const total = h("span");
  const id = `group-name-${i}`;
  const valid = { required: true, pattern: ".*\\S.*", maxLength: 200 };
  const name = h("input", { id, name: "name", autocomplete: "off", ...valid });
  const submit = h("button.button.primary", { type: "submit" }, "Make it a class");
  const members = h("div.members", { tabIndex: 0, role: "group", ariaLabel: `Members of ${title}` }, rows.map(member));
  const form = h(
    "form.group-form",
    h("details.fold", h("summary", "Members, ", total), members),
    whyNot("add-class")
      ? h("p.quiet", whyNot("add-class"))
      : h("div.field.row", h("label", { htmlFor: id }, "Name"), name, submit),
    h("div.slot"),
  );
  const recount = () => {
    const chosen = readMembers(form).length;
    total.textContent = `${chosen} of ${rows.length} chosen`;
    submit.disabled = !chosen;
  };
  form.addEventListener("change", recount);
  recount();
  return form;
}
