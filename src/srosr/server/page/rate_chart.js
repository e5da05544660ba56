// The rejection rate of each block of samples, with its interval and the target.
import { s } from "./dom.js";
import { number, percent } from "./wording.js";

const HEIGHT = 220;
const LEFT = 44;
const RIGHT = 12;
const TOP = 12;
const BOTTOM = 26;
const ALARM_LABEL = 44;

/** Write beside the line of an alarm, on the side where there is place. */
function drawAlarmLabel(place, width) {
  const atEnd = place > width - RIGHT - ALARM_LABEL;
  const attributes = { x: place + (atEnd ? -4 : 4), y: TOP + 10, "text-anchor": atEnd ? "end" : "start" };
  return s("text", { class: "alarm-label", ...attributes }, "alarm");
}

/** Draw the blocks as wide as the place that is free, in pixels. */
export function drawRates(blocks, target, free) {
  const width = Math.min(Math.max(free, 260), 1100);
  const end = blocks.at(-1).start + blocks.at(-1).samples;
  const from = blocks[0].start;
  const highest = Math.max(...blocks.map((block) => block.rejected.high), target ?? 0);
  const most = [0.05, 0.1, 0.2, 0.5, 1].find((value) => highest <= value) ?? 1;
  const x = (sample) => LEFT + ((sample - from) / (end - from)) * (width - LEFT - RIGHT);
  const y = (share) => TOP + (1 - share / most) * (HEIGHT - TOP - BOTTOM);
  const middle = (block) => x(block.start + block.samples / 2);
  const points = (key) => blocks.map((block) => `${middle(block).toFixed(1)},${y(block.rejected[key]).toFixed(1)}`);
  const grid = [0, 0.5, 1].map((part) => [
    s("line", { class: "grid-line", x1: LEFT, x2: width - RIGHT, y1: y(part * most), y2: y(part * most) }),
    s("text", { class: "tick-label", x: LEFT - 6, y: y(part * most) + 4, "text-anchor": "end" }, percent(part * most)),
  ]);
  const alarms = blocks
    .filter((block) => block.alarm !== null)
    .map((block) =>
      s(
        "g",
        {},
        s("line", { class: "alarm-line", x1: x(block.alarm), x2: x(block.alarm), y1: TOP, y2: HEIGHT - BOTTOM }),
        drawAlarmLabel(x(block.alarm), width),
      ),
    );
  const { share, low, high } = blocks.at(-1).rejected;
  const text =
    `Rejection rate over ${blocks.length} blocks; in the latest ${percent(share)}, ` +
    `interval ${percent(low)} to ${percent(high)}` +
    (target === null ? "." : `; target for known samples ${percent(target)}.`);
  return s(
    "svg",
    { viewBox: `0 0 ${width} ${HEIGHT}`, class: "rate-chart", role: "img", "aria-label": text },
    grid,
    s("polygon", { class: "band", points: [...points("low"), ...points("high").reverse()].join(" ") }),
    s("polyline", { class: "rate-line", points: points("share").join(" ") }),
    blocks.length < 60
      ? blocks.map((block) => s("circle", { class: "rate-dot", cx: middle(block), cy: y(block.rejected.share), r: 3 }))
      : null,
    target === null
      ? null
      : [
          s("line", { class: "target-line", x1: LEFT, x2: width - RIGHT, y1: y(target), y2: y(target) }),
          s(
            "text",
            { class: "target-label", x: width - RIGHT, y: y(target) - 5, "text-anchor": "end" },
            "target for known samples",
          ),
        ],
    alarms,
    s("text", { class: "tick-label", x: LEFT, y: HEIGHT - 8 }, `sample ${number(from)}`),
    s("text", { class: "tick-label", x: width - RIGHT, y: HEIGHT - 8, "text-anchor": "end" }, number(end)),
  );
}
