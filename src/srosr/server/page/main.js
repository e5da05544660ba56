// The page starts here: models are loaded, parts are wired, the server is watched.
import { onTokenNeeded } from "./api.js";
import { askToken, wireDialogs } from "./dialogs.js";
import { fill, find, h } from "./dom.js";
import { startExplanation } from "./explanation.js";
import { startGroups } from "./groups.js";
import { startMeasure } from "./measure.js";
import { loadModel, loadModels } from "./model_changes.js";
import { startModelView } from "./model_view.js";
import { showMonitoring, startMonitoring } from "./monitoring.js";
import { startSamples } from "./samples.js";
import { changed, on, state } from "./state.js";
import { startTable } from "./table.js";
import { startThreshold } from "./threshold.js";
import { count } from "./wording.js";

const VIEWS = ["decide", "groups", "measure", "model", "monitoring"];
const WATCH_EVERY = 4000;
let lost = null;

async function start() {
  wireDialogs();
  wireTheme();
  onTokenNeeded(askToken);
  for (const part of [
    startSamples,
    startTable,
    startExplanation,
    startThreshold,
    startGroups,
    startMeasure,
    startModelView,
    startMonitoring,
  ])
    part();
  on("model", showModel);
  addEventListener("hashchange", () => showView(true));
  find("model-select").addEventListener("change", chooseModel);
  showView(false);
  await connect();
  setTimeout(watch, WATCH_EVERY);
}

/** Load models until the server answers. */
async function connect() {
  try {
    const models = await loadModels();
    if (models.length) await loadModel(models[0].name);
    lost = null;
  } catch (error) {
    lost = error.message;
  }
  showBanners();
}

async function chooseModel() {
  try {
    await loadModel(find("model-select").value);
    state.samples?.close?.();
    Object.assign(state, { samples: null, run: null, decisions: [] });
    state.selected.clear();
    changed("samples decisions selection");
  } catch (error) {
    lost = error.message;
    showBanners();
  }
}

/** Ask now and then whether the server is there and serves the same model. */
async function watch() {
  if (!document.hidden) {
    try {
      if (!state.model) await connect();
      else {
        const models = await loadModels({ quiet: true });
        lost = null;
        const own = models.find((model) => model.name === state.model.name);
        if (!own) lost = `The model ${state.model.name} is no longer served.`;
        else if (own.version !== state.model.version) await loadModel(own.name);
        else state.model.problem = own.problem;
      }
    } catch (error) {
      lost = error.message;
    }
    showBanners();
  }
  setTimeout(watch, WATCH_EVERY);
}

let bannersNow = "";

function showBanners() {
  const texts = [lost ? `${lost} Trying again…` : null, state.model?.problem ?? null].filter(Boolean);
  if (texts.join("\n") === bannersNow) return;
  bannersNow = texts.join("\n");
  fill(
    find("banners"),
    texts.map((text) => h("p", { class: "banner", role: "alert" }, text)),
  );
}

function showModel() {
  const select = find("model-select");
  fill(
    select,
    state.models.map((model) =>
      h("option", { value: model.name, selected: model.name === state.model.name }, model.name),
    ),
  );
  select.disabled = state.models.length < 2;
  find("model-line").textContent =
    `${count(state.model.classes.length, "class", "classes")}${state.readOnly ? ", read-only" : ""}`;
  document.title = `${state.model.name} – SROSR`;
}

function showView(byUser) {
  const wanted = location.hash.slice(1);
  if (wanted === "main") return;
  const view = VIEWS.includes(wanted) ? wanted : "decide";
  for (const other of VIEWS) find(`view-${other}`).hidden = other !== view;
  for (const link of document.querySelectorAll("[data-view]")) {
    if (link.dataset.view === view) link.setAttribute("aria-current", "page");
    else link.removeAttribute("aria-current");
  }
  showMonitoring(view === "monitoring");
  if (byUser) {
    find(`title-${view}`).focus({ preventScroll: true });
    scrollTo(0, 0);
  }
}

function wireTheme() {
  const button = find("theme");
  const system = matchMedia("(prefers-color-scheme: dark)");
  const isDark = () => (document.documentElement.dataset.theme ?? (system.matches ? "dark" : "light")) === "dark";
  const refresh = () => button.setAttribute("aria-pressed", String(isDark()));
  button.addEventListener("click", () => {
    const theme = isDark() ? "light" : "dark";
    document.documentElement.dataset.theme = theme;
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
