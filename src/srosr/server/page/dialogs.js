// Questions to the user: whether to change the model, and the token. Their forms close the dialogs.
import { fill, find, h } from "./dom.js";

/** Open a dialog; resolve to the value of the button that closes it, "" where none does. */
function open(dialog) {
  dialog.returnValue = "";
  dialog.showModal();
  return new Promise((resolve) => {
    dialog.addEventListener("close", () => resolve(dialog.returnValue), { once: true });
  });
}

/** Ask whether to do something, in paragraphs; resolve to true or false. */
export async function ask({ title, text, action, danger = false }) {
  fill(find("question-title"), title);
  fill(
    find("question-text"),
    text.map((paragraph) => h("p", paragraph)),
  );
  fill(find("question-yes"), action).classList.toggle("danger", danger);
  return (await open(find("question"))) === "yes";
}

let asking = null;

/** Ask for the token; resolve to it, or to null. Requests that need it at once share the question. */
export function askToken(complaint) {
  asking ??= askOnce(complaint).finally(() => {
    asking = null;
  });
  return asking;
}

async function askOnce(complaint) {
  const input = find("token");
  fill(find("token-problem"), complaint && h("p.error", { role: "alert" }, complaint));
  input.value = "";
  const answer = await open(find("token-dialog"));
  const token = input.value.trim();
  input.value = "";
  return answer === "use" ? token : null;
}
