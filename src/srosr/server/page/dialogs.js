// Questions to the user: whether to change the model, and the token.
import { isToken, rememberToken } from "./api.js";
import { fill, find, h } from "./dom.js";

/** Ask whether to do something; resolve to true or false. */
export function ask({ title, text, action, danger = false }) {
  const dialog = find("question");
  find("question-title").textContent = title;
  fill(
    find("question-text"),
    [text].flat().map((paragraph) => h("p", {}, paragraph)),
  );
  const yes = find("question-yes");
  yes.textContent = action;
  yes.classList.toggle("danger", danger);
  return new Promise((resolve) => {
    dialog.returnValue = "no";
    dialog.addEventListener("close", () => resolve(dialog.returnValue === "yes"), { once: true });
    dialog.showModal();
    find("question-no").focus();
  });
}

let asking = null;

/** Ask for the token; resolve to true if one was given. Requests that need it at once share the question. */
export function askToken(complaint) {
  asking ??= new Promise((resolve) => {
    const dialog = find("token-dialog");
    const input = find("token");
    showTokenProblem(complaint);
    input.value = "";
    dialog.returnValue = "";
    dialog.addEventListener(
      "close",
      () => {
        asking = null;
        const given = dialog.returnValue === "use";
        if (given) rememberToken(input.value.trim());
        input.value = "";
        resolve(given);
      },
      { once: true },
    );
    dialog.showModal();
    input.focus();
  });
  return asking;
}

const showTokenProblem = (text) =>
  fill(find("token-problem"), text ? h("p", { class: "error", role: "alert" }, text) : null);

/** Whether a press is within the edges of an element: the dialog is its target also beside them. */
function isInside(element, { clientX: x, clientY: y }) {
  const { left, right, top, bottom } = element.getBoundingClientRect();
  return x >= left && x <= right && y >= top && y <= bottom;
}

/** Let buttons with `data-closes` close their dialog, and a click beside a dialog, too. */
export function wireDialogs() {
  for (const dialog of document.querySelectorAll("dialog")) {
    for (const button of dialog.querySelectorAll("[data-closes]")) {
      button.addEventListener("click", () => dialog.close(button.dataset.closes));
    }
    dialog.addEventListener("mousedown", (event) => {
      // The second press of a double click on a row falls beside the dialog that the first has opened.
      if (event.target === dialog && event.detail < 2 && !isInside(dialog, event)) dialog.close("");
    });
  }
  find("token-form").addEventListener("submit", (event) => {
    event.preventDefault();
    if (isToken(find("token").value.trim())) find("token-dialog").close("use");
    else showTokenProblem("A token has letters, digits and signs of ASCII, and no spaces.");
  });
}
