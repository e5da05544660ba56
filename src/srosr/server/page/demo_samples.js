// Samples of the demo to pick from: digits that the model knows and digits that it has never seen.
import { request } from "./api.js";
import { decide } from "./deciding.js";
import { fill, h } from "./dom.js";
import { runJob } from "./jobs.js";
import { paint } from "./pictures.js";
import { NumberSet } from "./sample_set.js";
import { state } from "./state.js";
import { count, listAnd, number } from "./wording.js";

const OFFERED = 24;
const OFFERED_ON_A_TELEPHONE = 12;
const slot = h("div.slot");
let offered = null;
let seed = 0;

export async function showDemoSamples(place) {
  if (offered) return;
  fill(place, slot);
  offered = await load(OFFERED, () => showDemoSamples(place));
  if (offered) draw(place);
}

const load = (n, again = null) =>
  runJob(slot, "Loading", ({ signal }) => request("/v1/demo/samples", { query: { n, seed }, signal }), { again });

function draw(place) {
  const n = matchMedia("(max-width: 640px)").matches ? OFFERED_ON_A_TELEPHONE : OFFERED;
  const samples = offered.samples.slice(0, n);
  const go = h("button.button.primary", { type: "submit", disabled: true }, "Decide");
  const pick = ({ digit, known, values }, i) => {
    const title = `${digit}, ${known ? "known" : "unknown"} digit`;
    return h(
      "label.pick",
      { title },
      h("input.visually-hidden", { type: "checkbox", name: "pick", value: i, ariaLabel: `Sample ${i + 1}: ${title}` }),
      h("span.thumbnail.medium", paint(values, offered.shape)),
      known ? h("span.pick-name", digit) : h("span.pick-name.unknown", `${digit}?`),
    );
  };
  const grid = h("div.pick-grid", { role: "group", ariaLabel: "Samples of the demo" }, samples.map(pick));
  const some = (n, text) => h("button.button", { onclick: () => decideOnOthers(n) }, text);
  const others = h("button.button", { onclick: () => offerOthers(place) }, "Show others");
  const form = h(
    "form",
    grid,
    h("div.actions", go, some(12, "A handful at random"), some(200, "200 at random"), others),
    slot,
  );
  const picked = () => new FormData(form).getAll("pick");
  form.addEventListener("change", () => {
    const chosen = picked().length;
    go.disabled = !chosen;
    go.textContent = chosen ? `Decide on ${number(chosen)}` : "Decide";
  });
  form.addEventListener("submit", (event) => {
    event.preventDefault();
    decideOn(picked().map((i) => samples[i]));
  });
  grid.addEventListener("keydown", (event) => moveInGrid(grid, event));
  const { known, unknown } = offered;
  const text = `The model knows ${listAnd(known.map(String))}; it has never seen ${listAnd(unknown.map(String))}`;
  fill(place, h("p.quiet", `Handwritten digits. ${text} (marked ?).`), form);
  return others;
}

async function decideOnOthers(n) {
  seed += 1;
  const { name } = state.model;
  const found = await load(n);
  if (found && name === state.model.name) decideOn(found.samples);
}

async function offerOthers(place) {
  seed += 1;
  const found = await load(OFFERED);
  if (!found) return;
  offered = found;
  draw(place).focus();
}

function decideOn(samples) {
  const values = samples.map((sample) => sample.values);
  const labels = samples.map((sample) => String(sample.digit));
  const title = `${count(samples.length, "sample")} of the demo`;
  decide(new NumberSet(values, { labels, shape: offered.shape, title }));
}

/** Move the focus by arrow keys, as the eye sees the grid. */
function moveInGrid(grid, event) {
  const boxes = [...grid.querySelectorAll("input")];
  const place = boxes.indexOf(document.activeElement);
  const across = getComputedStyle(grid).gridTemplateColumns.split(" ").length;
  const step = { ArrowRight: 1, ArrowLeft: -1, ArrowDown: across, ArrowUp: -across }[event.key];
  if (!step || !boxes[place + step]) return;
  event.preventDefault();
  boxes[place + step].focus();
}
