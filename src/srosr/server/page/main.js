// The page starts here: models are loaded, parts are wired, the server is watched.
import { fill, find, focusHeading, h } from "./dom.js";
import { startExplanation } from "./explanation.js";
import { startGroups } from "./groups.js";
import { startMeasure } from "./measure.js";
import { loadModel, loadModels, wantedModel } from "./model_changes.js";
import { startModelView } from "./model_view.js";
import { showMonitoring, startMonitoring } from "./monitoring.js";
import { startSamples } from "./samples.js";
import { on, state } from "./state.js";
import { startTable } from "./table.js";
import { startTeaching } from "./teaching.js";
import { startThreshold } from "./threshold.js";
import { count } from "./wording.js";

const VIEWS = ["decide", "groups", "measure", "model", "monitoring"];
const WATCH_EVERY = 4000;
let lost = null; // why the page and the server do not come together: an error, or null
let refused = false; // the user does not give the token now

async function start() {
  wireTheme();
  const parts = [startSamples, startTable, startTeaching, startExplanation, startThreshold];
  for (const begin of [...parts, startGroups, startMeasure, startModelView, startMonitoring]) begin();
  on("model changing", () => state.model && showModel());
  addEventListener("hashchange", () => showView(true));
  find("model-select").addEventListener("change", chooseModel);
  showView(false);
  await connect();
  setTimeout(watch, WATCH_EVERY);
}

/** Do what needs the server; show what is wrong if it does not come to its end. */
async function attempt(work) {
  try {
    await work();
    lost = null;
  } catch (error) {
    lost = error;
    if (error.status === undefined) console.error(error); // a mistake in the page, not an answer
  }
  showBanners();
}

/** Load models until the server answers. */
async function connect() {
  await attempt(async () => {
    const models = await loadModels({ quiet: refused });
    const name = wantedModel() ?? models[0]?.name;
    if (name) await loadModel(name, { quiet: refused });
  });
  refused = lost?.status === 401;
}

async function chooseModel() {
  await attempt(() => loadModel(find("model-select").value));
  if (lost) showModel();
}

/** Ask now and then whether the server is there and serves the same model. */
async function watch() {
  if (!document.hidden) await (state.model ? attempt(look) : connect());
  setTimeout(watch, WATCH_EVERY);
}

async function look() {
  const models = await loadModels({ quiet: true });
  const own = models.find((model) => model.name === state.model.name);
  if (!own) throw Object.assign(new Error(`The model ${state.model.name} is no longer served.`), { status: 404 });
  state.model.problem = own.problem;
  // A model that was chosen meanwhile comes first, and a change that the page makes is shown with its words.
  if (own.version !== state.model.version && wantedModel() === own.name && !state.changing)
    await loadModel(own.name, { quiet: true });
}

let bannersNow = "";

function showBanners() {
  const barred = lost?.status === 401;
  const trouble = lost && (barred ? lost.message : `${lost.message} Trying again…`);
  const texts = [trouble, state.model?.problem].filter(Boolean);
  if (texts.join("\n") === bannersNow) return;
  bannersNow = texts.join("\n");
  const give = barred && h("button.button.small", { onclick: giveToken }, "Give the token");
  fill(
    find("banners"),
    texts.map((text, i) => h("div.banner", { role: "alert" }, h("p", text), i === 0 && give)),
  );
}

async function giveToken() {
  refused = false;
  await connect();
  if (!lost) focusHeading(find("title-decide"));
}

function showModel() {
  const select = find("model-select");
  const options = state.models.map(({ name }) =>
    h("option", { value: name, selected: name === wantedModel() }, name),
  );
  fill(select, options);
  select.disabled = state.models.length < 2 || state.changing > 0;
  find("model-line").textContent =
    `${count(state.model.classes.length, "class", "classes")}${state.readOnly ? ", read-only" : ""}`;
  document.title = `${state.model.name} – SROSR`;
}

function showView(byUser) {
  const wanted = location.hash.slice(1);
  // The link to the content is no part of its own: the part that is shown stays.
  if (wanted === "main" && document.querySelector("[data-view][aria-current]")) return;
  const view = VIEWS.includes(wanted) ? wanted : "decide";
  for (const other of VIEWS) find(`view-${other}`).hidden = other !== view;
  for (const link of document.querySelectorAll("[data-view]")) {
    link.ariaCurrent = link.dataset.view === view ? "page" : null;
  }
  showMonitoring(view === "monitoring");
  if (byUser) {
    find(`title-${view}`).focus({ preventScroll: true });
    scrollTo({ top: 0, behavior: "instant" });
  }
}

function wireTheme() {
  const button = find("theme");
  const system = matchMedia("(prefers-color-scheme: dark)");
  const root = document.documentElement;
  const isDark = () => (root.dataset.theme || (system.matches ? "dark" : "light")) === "dark";
  const refresh = () => {
    button.ariaPressed = String(isDark());
  };
  button.addEventListener("click", () => {
    const theme = isDark() ? "light" : "dark";
    root.dataset.theme = theme;
    try {
      localStorage.setItem("srosr-theme", theme);
    } catch {
      // Storage may be off; the choice holds until the page is closed.
    }
    refresh();
  });
  system.addEventListener("change", refresh);
  refresh();
}

start();
