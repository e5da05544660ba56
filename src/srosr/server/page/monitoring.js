// What the server has decided lately: the rejection rate over time, and whether the stream has changed.
import { modelPath, request } from "./api.js";
import { facts, table, tile } from "./cards.js";
import { ask } from "./dialogs.js";
import { announce, fill, find, h, keepFocus } from "./dom.js";
import { showDone, showError } from "./jobs.js";
import { drawRates } from "./rate_chart.js";
import { on, state, whyNot } from "./state.js";
import { number, percent, time } from "./wording.js";

const EVERY = 3000;
const FINAL = [401, 403, 404]; // these do not get better by asking again
const MOST_BLOCKS = 20; // in the table
let timer = null;
let shown = false;
let last = null; // what is drawn
let complaint = null;

export function startMonitoring() {
  document.addEventListener("visibilitychange", watch);
  find("restart").addEventListener("click", restartWatch);
  on("model", () => {
    last = null;
    find("restart").hidden = state.readOnly;
    find("restart-why").textContent = state.readOnly ? whyNot("restart") : "";
    watch();
  });
}

/** Tell whether the part is on the screen: only then it asks the server. */
export function showMonitoring(visible) {
  shown = visible;
  watch();
}

/** Show what the server has decided, now and again after a while. */
async function watch() {
  clearTimeout(timer);
  if (!shown || !state.model || document.hidden) return;
  const { name } = state.model;
  let problem = null;
  const found = await request(modelPath(name, "monitor"), { quiet: true }).catch((error) => {
    problem = error;
  });
  if (name === state.model.name) {
    if (problem && problem.message !== complaint) showError(find("monitor-problem"), problem); // not with every try
    if (found) {
      fill(find("monitor-problem"));
      draw(found);
    }
    complaint = problem?.message;
    if (FINAL.includes(problem?.status)) return;
  }
  clearTimeout(timer);
  timer = setTimeout(watch, EVERY);
}

function draw(found) {
  const text = JSON.stringify(found) + find("monitoring").clientWidth;
  if (text === last) return;
  last = text;
  const { summary, blocks } = found;
  find("no-monitor").textContent = found.problem ?? "This model is not monitored.";
  find("no-monitor").hidden = Boolean(summary);
  find("monitored").hidden = !summary;
  if (!summary) return;
  drawAlarm(summary);
  drawTiles(summary, found.since);
  find("no-blocks").textContent = `The chart begins after ${number(found.block)} samples.`;
  find("no-blocks").hidden = blocks.length > 0;
  find("blocks").hidden = !blocks.length;
  if (blocks.length) {
    const chart = find("rate-chart");
    fill(chart, drawRates(blocks, summary.target, chart.parentElement.clientWidth - 36));
    keepFocus(find("blocks-table"), () => fill(find("blocks-table"), drawBlocks(blocks)));
  }
  fill(find("monitor-facts"), facts(found.facts));
}

function drawAlarm({ alarm, samples, rejected, target }) {
  const box = find("alarm");
  const now = alarm ? `${state.model.name} ${alarm.sample}` : "";
  if (alarm && box.dataset.alarm !== now) announce(`Alarm at sample ${number(alarm.sample)}.`);
  box.dataset.alarm = now;
  const raised =
    alarm &&
    `Raised at sample ${number(alarm.sample)}; the change began near sample ${number(alarm.change)}. ` +
      "Look at the samples since then: a new kind of sample, or other conditions?";
  const calm = "The samples look alike over time, as far as can be told.";
  const quiet = samples ? calm : "No sample has been decided yet.";
  const many =
    !alarm && target !== null && rejected.low > target
      ? "But more are rejected than known samples would be: from the start, many of them look unknown."
      : null;
  box.classList.toggle("raised", Boolean(alarm));
  fill(
    box,
    h("p.alarm-title", alarm ? "⚠ Alarm: the samples have changed" : "✓ No alarm"),
    h("p", raised ?? quiet),
    many && h("p", many),
  );
}

const range = ({ low, high }) => `${percent(low)} to ${percent(high)}`;

function drawTiles({ samples, rejected, rejected_recent: recent, target }, since) {
  const rate = (name, found) => tile(name, percent(found.share), found.share !== null && range(found));
  fill(
    find("monitor-tiles"),
    tile("Samples", number(samples), `since ${time(since)}`),
    rate("Rejected", rejected),
    recent.samples < rejected.samples && rate(`Rejected of the last ${number(recent.samples)}`, recent),
    target !== null && tile("Target for known samples", percent(target)),
  );
}

function drawBlocks(blocks) {
  const latest = blocks.slice(-MOST_BLOCKS).toReversed();
  const rows = latest.map(({ time: when, start, samples, rejected }) => [
    time(when),
    `${number(start)}–${number(start + samples - 1)}`,
    percent(rejected.share),
    range(rejected),
  ]);
  const numbers = ["Samples", "Rejected", "95 % interval"].map((name) => [name, "number"]);
  return table("Latest blocks", [["Time"], ...numbers], rows);
}

async function restartWatch() {
  const slot = find("monitor-job");
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
    await watch();
  } catch (error) {
    showError(slot, error);
  }
}
