// Samples of the demo to pick from: digits that the model knows and digits that it has never seen.
import { request } from "./api.js";
import { decide } from "./deciding.js";
import { fill, h } from "./dom.js";
import { runJob } from "./jobs.js";
import { paint } from "./pictures.js";
import { NumberSet } from "./sample_set.js";
import { state } from "./state.js";
import { listOr, number } from "./wording.js";

const OFFERED = 24;
const OFFERED_ON_A_TELEPHONE = 12;
const HANDFUL = 12;
let offered = null;
let seed = 0;
const picked = new Set();

export async function showDemoSamples(place) {
  if (offered) return;
  const slot = h("div", {});
  fill(place, slot);
  const again = () => showDemoSamples(place);
  offered = await runJob(slot, "Loading", ({ signal }) => offer(signal), { again });
  if (offered) draw(place);
}

/** Load samples to pick from, as many as the screen has place for. */
async function offer(signal) {
  const found = await load(OFFERED, seed, signal);
  const n = matchMedia("(max-width: 640px)").matches ? OFFERED_ON_A_TELEPHONE : OFFERED;
  return { ...found, samples: found.samples.slice(0, n) };
}

const load = (n, from, signal) => request("/v1/demo/samples", { query: { n, seed: from }, signal });

function draw(place) {
  const slot = h("div", {});
  const decideButton = h("button", {
    type: "button",
    class: "button primary",
    on: { click: () => decideOn(chosen()) },
  });
  const chosen = () => offered.samples.filter((_, i) => picked.has(i));
  const relabel = () => {
    decideButton.disabled = !picked.size;
    decideButton.textContent = picked.size ? `Decide on ${number(picked.size)}` : "Decide";
  };
  const grid = h(
    "div",
    { class: "pick-grid", role: "group", "aria-label": "Samples of the demo" },
    offered.samples.map((sample, i) => {
      const title = `${sample.digit}, ${sample.known ? "known" : "unknown"} digit`;
      const button = h(
        "button",
        {
          type: "button",
          class: "pick",
          title,
          "aria-pressed": String(picked.has(i)),
          "aria-label": `Sample ${i + 1}: ${title}`,
        },
        h("span", { class: "thumbnail medium" }, paint(sample.values, offered.shape)),
        h(
          "span",
          { class: sample.known ? "pick-name" : "pick-name unknown" },
          sample.known ? `${sample.digit}` : `${sample.digit}?`,
        ),
      );
      button.addEventListener("click", () => {
        if (!picked.delete(i)) picked.add(i);
        button.setAttribute("aria-pressed", String(picked.has(i)));
        relabel();
      });
      return button;
    }),
  );
  grid.addEventListener("keydown", (event) => moveInGrid(grid, event));
  const all = (n) => async () => {
    seed += 1;
    const { name } = state.model;
    const found = await runJob(slot, "Loading", ({ signal }) => load(n, seed, signal));
    if (found && name === state.model.name) decideOn(found.samples, found.shape);
  };
  const others = async () => {
    seed += 1;
    const found = await runJob(slot, "Loading", ({ signal }) => offer(signal));
    if (!found) return;
    offered = found;
    picked.clear();
    draw(place);
    place.querySelector(".others").focus();
  };
  fill(
    place,
    h(
      "p",
      { class: "quiet" },
      `Handwritten digits. The model knows ${listOr(offered.known, "and")}; `,
      `it has never seen ${listOr(offered.unknown, "and")} (marked ?).`,
    ),
    grid,
    h(
      "div",
      { class: "actions" },
      decideButton,
      h("button", { type: "button", class: "button", on: { click: all(HANDFUL) } }, "A handful at random"),
      h("button", { type: "button", class: "button", on: { click: all(200) } }, "200 at random"),
      h("button", { type: "button", class: "button others", on: { click: others } }, "Show others"),
    ),
    slot,
  );
  relabel();
}

function decideOn(samples, shape = offered.shape) {
  decide(
    new NumberSet(
      samples.map((sample) => sample.values),
      {
        labels: samples.map((sample) => String(sample.digit)),
        shape,
        origin: "of the demo",
      },
    ),
  );
}

/** Move the focus by arrow keys, as the eye sees the grid. */
function moveInGrid(grid, event) {
  const buttons = [...grid.children];
  const place = buttons.indexOf(document.activeElement);
  if (place < 0) return;
  const top = buttons[0].offsetTop;
  const across = buttons.filter((button) => button.offsetTop === top).length;
  const step = { ArrowRight: 1, ArrowLeft: -1, ArrowDown: across, ArrowUp: -across }[event.key];
  if (!step || !buttons[place + step]) return;
  event.preventDefault();
  buttons[place + step].focus();
}
