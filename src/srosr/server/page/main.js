// The page starts here: models are loaded, parts are wired, the server is watched.
import { onTokenNeeded } from "./api.js";
import { askToken, wireDialogs } from "./dialogs.js";
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
import { startThreshold } from "./threshold.js";
import { count } from "./wording.js";

const VIEWS = ["decide", "groups", "measure", "model", "monitoring"];
const WATCH_EVERY = 4000;
let lost = null; // why the page and the server do not come together: an error, or null
let refused = false; // the user does not give the token now

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
  on("model changing", () => state.model && showModel());
  addEventListener("hashchange", () => showView(true));
  find("model-select").addEventListener("change", chooseModel);
  showView(false);
  await connect();
  setTimeout(watch, WATCH_EVERY);
}

/** Load models until the server answers. */
async function connect() {
  try {
    const models = await loadModels({ quiet: refused });
    const name = wantedModel() ?? models[0]?.name;
    if (name) await loadModel(name, { quiet: refused });
    lost = null;
  } catch (error) {
    lose(error);
    refused = error.status === 401;
  }
  showBanners();
}

async function chooseModel() {
  try {
    await loadModel(find("model-select").value);
    lost = null;
  } catch (error) {
    lose(error);
    showModel();
  }
  showBanners();
}

/** Ask now and then whether the server is there and serves the same model. */
async function watch() {
  if (!document.hidden) await (state.model ? look() : connect());
  setTimeout(watch, WATCH_EVERY);
}

async function look() {
  try {
    const models = await loadModels({ quiet: true });
    lost = null;
    const own = models.find((model) => model.name === state.model.name);
    if (!own) lost = new Error(`The model ${state.model.name} is no longer served.`);
    else {
      state.model.problem = own.problem;
      // A model that was chosen meanwhile comes first, and a change that the page makes is shown with its words.
      if (own.version !== state.model.version && wantedModel() === own.name && !state.changing)
        await loadModel(own.name, { quiet: true });
    }
  } catch (error) {
    lose(error);
  }
  showBanners();
}

function lose(error) {
  lost = error;
  if (error.status === undefined) console.error(error); // a mistake in the page, not an answer
}

let bannersNow = "";

function showBanners() {
  const barred = lost?.status === 401;
  const trouble = lost && (barred ? lost.message : `${lost.message} Trying again…`);
  const texts = [trouble, state.model?.problem].filter(Boolean);
  if (texts.join("\n") === bannersNow) return;
  bannersNow = texts.join("\n");
  const give = h("button", { type: "button", class: "button small", on: { click: giveToken } }, "Give the token");
  fill(
    find("banners"),
    texts.map((text, i) =>
      h("div", { class: "banner", role: "alert" }, h("p", {}, text), barred && i === 0 ? give : null),
    ),
  );
}

async function giveToken() {
  refused = false;
  await connect();
  if (!lost) focusHeading(find("title-decide"));
}

function showModel() {
  const select = find("model-select");
  fill(
    select,
    state.models.map((model) =>
      h("option", { value: model.name, selected: model.name === wantedModel() }, model.name),
    ),
  );
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
