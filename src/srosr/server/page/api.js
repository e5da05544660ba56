// Requests to the server: JSON, the token, progress, and errors as one sentence.
import { askToken } from "./dialogs.js";

const TOKEN = "srosr-token";
const FIRST_POLL = 300;
const POLL_EVERY = 500;
let token = null;
try {
  token = sessionStorage.getItem(TOKEN);
} catch {
  // Storage may be off; the token holds until the page is closed then.
}

/** An answer that is an error: the server's sentence and the status, 0 if there was no answer. */
class ServerError extends Error {
  constructor(message, status) {
    super(message);
    this.status = status;
  }
}

/** Return the address of an endpoint of a model. */
export const modelPath = (name, endpoint = "") =>
  `/v1/models/${encodeURIComponent(name)}${endpoint ? `/${endpoint}` : ""}`;

/**
 * Send a request and return the parsed JSON. `json` becomes the body; else `body` is sent as it is. `onProgress` gets
 * {stage, done, of} while the server works; a `quiet` request never asks for the token.
 */
export async function request(path, { onProgress, headers, ...options } = {}) {
  if (!onProgress) return readJson(await send(path, { headers, ...options }));
  const key = Array.from(crypto.getRandomValues(new Uint8Array(16)), (n) => n.toString(16).padStart(2, "0")).join("");
  const stop = pollProgress(key, onProgress);
  try {
    return await readJson(await send(path, { headers: { ...headers, "Progress-Key": key }, ...options }));
  } finally {
    stop();
  }
}

/** Ask again and again how far a request is; return a function that ends this. */
function pollProgress(key, onProgress) {
  let over = false;
  const poll = async () => {
    const found = await request(`/v1/progress/${key}`, { quiet: true }).catch(() => null);
    if (over) return;
    if (found?.stage) onProgress(found);
    timer = setTimeout(poll, POLL_EVERY);
  };
  let timer = setTimeout(poll, FIRST_POLL);
  return () => {
    over = true;
    clearTimeout(timer);
  };
}

async function readJson(answer) {
  try {
    return await answer.json();
  } catch (error) {
    if (error.name === "AbortError") throw error;
    throw new ServerError("The answer of the server cannot be read.", answer.status);
  }
}

async function send(path, { method, json, body, query, headers, signal, quiet = false }) {
  const address = query ? `${path}?${new URLSearchParams(query)}` : path;
  const content = json === undefined ? body : JSON.stringify(json);
  for (;;) {
    const used = token;
    const sent = { Accept: "application/json", ...headers };
    if (used) sent.Authorization = `Bearer ${used}`;
    if (json !== undefined) sent["Content-Type"] = "application/json";
    let answer;
    try {
      answer = await fetch(address, {
        method: method ?? (content === undefined ? "GET" : "POST"),
        headers: sent,
        body: content,
        signal,
        cache: "no-store",
      });
    } catch (error) {
      if (error.name === "AbortError") throw error;
      throw (await findChangedFile(body)) ?? new ServerError("The server cannot be reached.", 0);
    }
    if (answer.ok) return answer;
    const said = await answer.json().catch(() => ({}));
    if (answer.status === 401 && !quiet) {
      if (used !== token) continue; // another request has asked meanwhile
      const given = await askToken(used ? said.error : null);
      if (given) {
        rememberToken(given);
        continue;
      }
    }
    throw new ServerError(said.error ?? `The server answered with status ${answer.status}.`, answer.status);
  }
}

function rememberToken(given) {
  token = given;
  try {
    sessionStorage.setItem(TOKEN, given);
  } catch {
    // Storage may be off.
  }
}

/** Return an error if a file of the body is no longer what was chosen: browsers do not send such a file. */
async function findChangedFile(body) {
  if (!(body instanceof FormData)) return null;
  for (const file of body.getAll("files")) {
    try {
      await file.slice(0, 1).arrayBuffer();
    } catch {
      return new ServerError(`${file.name} has changed since it was chosen: choose it again.`, 422);
    }
  }
  return null;
}
