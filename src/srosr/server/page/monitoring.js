// What the server has decided lately: the rejection rate over time, and whether the stream has changed.
import { modelPath, request } from "./api.js";
import { ask } from "./dialogs.js";
import { announce, fill, find, h, keepFocus } from "./dom.js";
import { showDone, showError } from "./jobs.js";
import { drawRates } from "./rate_chart.js";
import { on, state, whyNot } from "./state.js";
import { number, percent, time } from "./wording.js";

const EVERY = 3000;
let timer = null;
let shown = false;
let last = null;
let watched = null; // the name of the model
let alarmed = false;
let complaint = null;
const FINAL = [401, 403, 404]; // these do not get better by asking again
const slot = h("div", { class: "slot" });
const problem = h("div", { class: "slot" });
const content = h("div", { class: "stack" });

export function startMonitoring() {
  fill(find("monitoring"), problem, content);
  document.addEventListener("visibilitychange", schedule);
  on("model", () => {
    last = null;
    if (state.model.name !== watched) {
      watched = state.model.name;
      alarmed = false;
    }
    schedule();
  });
}

/** Tell whether the part is on the screen: only then it asks the server. */
export function showMonitoring(visible) {
  shown = visible;
  schedule();
}

function schedule() {
  clearTimeout(timer);
  if (shown && state.model && !document.hidden) refresh();
}

async function refresh() {
  clearTimeout(timer);
  const { name } = state.model;
  try {
    const found = await request(modelPath(name, "monitor"), { quiet: true });
    if (name === state.model.name) {
      fill(problem);
      complaint = null;
      draw(found);
    }
  } catch (error) {
    if (name === state.model.name) {
      if (error.message !== complaint) showError(problem, error); // said once, not with every try
      complaint = error.message;
      if (FINAL.includes(error.status)) return;
    }
  }
  clearTimeout(timer);
  if (shown && !document.hidden) timer = setTimeout(refresh, EVERY);
}

function draw(found) {
  const text = `${content.clientWidth} ${JSON.stringify(found)}`;
  if (text === last) return;
  last = text;
  const { summary, facts, blocks, block, since } = found;
  if (!summary) {
    fill(content, h("div", { class: "card empty" }, h("p", {}, found.problem ?? "This model is not monitored.")));
    return;
  }
  const { alarm, rejected, rejected_recent: recent, target } = summary;
  if (Boolean(alarm) !== alarmed) {
    alarmed = Boolean(alarm);
    if (alarmed) announce(`Alarm at sample ${number(alarm.sample)}.`);
  }
  const status = alarm
    ? h(
        "div",
        { class: "alarm raised" },
        h("p", { class: "alarm-title" }, "⚠ Alarm: the samples have changed"),
        h(
          "p",
          {},
          `Raised at sample ${number(alarm.sample)}; the change began near sample ${number(alarm.change)}. `,
          "Look at the samples since then: a new kind of sample, or other conditions?",
        ),
      )
    : h(
        "div",
        { class: "alarm" },
        h("p", { class: "alarm-title" }, "✓ No alarm"),
        h(
          "p",
          {},
          summary.samples
            ? "The samples look alike over time, as far as can be told."
            : "No sample has been decided yet.",
        ),
        target !== null && rejected.low > target
          ? h("p", {}, "But more are rejected than known samples would be: from the start, many of them look unknown.")
          : null,
      );
  const tile = (name, value, more) =>
    h(
      "div",
      { class: "figure-tile" },
      h("dt", {}, name),
      h("dd", {}, h("b", {}, value), more ? h("span", { class: "quiet" }, more) : null),
    );
  const range = (rate) => (rate.share === null ? null : `${percent(rate.low)} to ${percent(rate.high)}`);
  const open = content.querySelector(".facts-fold")?.open ?? false;
  const tableOpen = content.querySelector(".blocks-fold")?.open ?? false;
  const restart = state.readOnly
    ? h("span", { class: "quiet" }, whyNot("restart"))
    : h(
        "button",
        { type: "button", class: "button", data: { focus: "restart" }, on: { click: restartWatch } },
        "Start anew",
      );
  const parts = [
    status,
    h(
      "section",
      { class: "card", "aria-labelledby": "rate-title" },
      h("div", { class: "card-head" }, h("h3", { id: "rate-title" }, "Rejection rate"), restart),
      h(
        "dl",
        { class: "figure-tiles" },
        tile("Samples", number(summary.samples), `since ${time(since)}`),
        tile("Rejected", percent(rejected.share), range(rejected)),
        recent.samples < rejected.samples
          ? tile(`Rejected of the last ${number(recent.samples)}`, percent(recent.share), range(recent))
          : null,
        target === null ? null : tile("Target for known samples", percent(target)),
      ),
      slot,
      blocks.length
        ? drawRates(blocks, target, content.clientWidth - 36)
        : h("p", { class: "quiet" }, `The chart begins after ${number(block)} samples.`),
      blocks.length ? drawBlocks(blocks, tableOpen) : null,
    ),
    h(
      "details",
      { class: "card card-fold facts-fold", open },
      h("summary", { data: { focus: "facts" } }, h("h3", {}, "All facts")),
      h(
        "dl",
        { class: "facts" },
        facts.flatMap(([name, words]) => [h("dt", {}, name), h("dd", {}, words)]),
      ),
    ),
  ];
  keepFocus(content, () => fill(content, parts));
}

function drawBlocks(blocks, open) {
  const rows = blocks
    .slice(-20)
    .reverse()
    .map((block) =>
      h(
        "tr",
        {},
        h("th", { scope: "row" }, time(block.time)),
        h("td", { class: "number" }, `${number(block.start)}–${number(block.start + block.samples - 1)}`),
        h("td", { class: "number" }, percent(block.rejected.share)),
        h("td", { class: "number" }, `${percent(block.rejected.low)} to ${percent(block.rejected.high)}`),
      ),
    );
  return h(
    "details",
    { class: "fold blocks-fold", open },
    h("summary", { data: { focus: "blocks" } }, "The latest blocks as a table"),
    h(
      "div",
      { class: "scroll", tabindex: 0, role: "region", "aria-label": "Latest blocks", data: { focus: "blocks-table" } },
      h(
        "table",
        { class: "plain" },
        h(
          "thead",
          {},
          h(
            "tr",
            {},
            ["Time", "Samples", "Rejected", "95 % interval"].map((text, i) =>
              h("th", { scope: "col", class: i ? "number" : "" }, text),
            ),
          ),
        ),
        h("tbody", {}, rows),
      ),
    ),
  );
}

async function restartWatch() {
  const yes = await ask({
    title: "Start the watch anew?",
    text: ["An alarm is cleared, and the samples from now on are compared with one another."],
    action: "Start anew",
  });
  if (!yes) return;
  try {
    await request(modelPath(state.model.name, "monitor/restart"), { method: "POST" });
    showDone(slot, "A new watch has begun.");
    announce("A new watch has begun.");
    await refresh();
  } catch (error) {
    showError(slot, error);
  }
}
