// Requests to the server: JSON, streams of lines, the token, and errors as one sentence.

const TOKEN = "srosr-token";
const LOST = "The server cannot be reached.";
let askForToken = null;
let ownToken = null; // where the browser stores nothing, the token holds until the page is closed

/** An answer that is an error: the server's sentence and the status, 0 if there was no answer. */
class ServerError extends Error {
  constructor(message, status) {
    super(message);
    this.status = status;
  }
}

/** Set the function that asks the user for the token and returns it, or null. */
export function onTokenNeeded(ask) {
  askForToken = ask;
}

/** Whether a text can be sent as a token: a header takes no other signs. */
export const isToken = (text) => /^[\x21-\x7e]+$/.test(text);

export function rememberToken(token) {
  ownToken = token;
  try {
    sessionStorage.setItem(TOKEN, token);
  } catch {
    // Storage may be off.
  }
}

function readToken() {
  try {
    const kept = sessionStorage.getItem(TOKEN);
    if (kept !== null && isToken(kept)) return kept;
  } catch {
    // Storage may be off.
  }
  return ownToken;
}

/** Return the address of an endpoint of a model. */
export const modelPath = (name, endpoint = "") =>
  `/v1/models/${encodeURIComponent(name)}${endpoint ? `/${endpoint}` : ""}`;

/** Send a request and return the parsed JSON. `json` becomes the body; else `body` is sent as it is. */
export async function request(path, options = {}) {
  const answer = await send(path, "application/json", options);
  return readJson(answer);
}

/** Send a request whose answer is a stream of JSON lines; `onLine` gets each. An error line is thrown. */
export async function stream(path, onLine, options = {}) {
  const answer = await send(path, "application/x-ndjson", options);
  const reader = answer.body.getReader();
  const decoder = new TextDecoder();
  let rest = "";
  let last = null;
  const take = (line) => {
    if (!line.trim()) return;
    last = JSON.parse(line);
    if (last.kind === "error") throw new ServerError(last.error, last.status);
    onLine(last);
  };
  for (;;) {
    const { done, value } = await readPart(reader);
    if (done) break;
    const lines = (rest + decoder.decode(value, { stream: true })).split("\n");
    rest = lines.pop();
    lines.forEach(take);
  }
  take(rest);
  if (last?.kind !== "result" && last?.kind !== "end") throw new ServerError("The answer broke off.", 0);
}

/** Run a stream that ends with a result, and return it; `onProgress` gets the lines before. */
export async function streamResult(path, onProgress, options = {}) {
  let result = null;
  await stream(
    path,
    (line) => {
      if (line.kind === "result") result = line;
      else onProgress(line);
    },
    options,
  );
  return result;
}

async function readPart(reader) {
  try {
    return await reader.read();
  } catch (error) {
    throw error.name === "AbortError" ? error : new ServerError("The connection broke off.", 0);
  }
}

async function readJson(answer) {
  try {
    return await answer.json();
  } catch (error) {
    if (error.name === "AbortError") throw error;
    throw new ServerError("The answer of the server cannot be read.", answer.status);
  }
}

async function send(path, accept, { method, json, body, query, headers, signal, quiet } = {}) {
  const address = query ? `${path}?${new URLSearchParams(query)}` : path;
  for (;;) {
    const token = readToken();
    const sent = { Accept: accept, ...headers };
    if (token) sent.Authorization = `Bearer ${token}`;
    if (json !== undefined) sent["Content-Type"] = "application/json";
    let answer;
    try {
      answer = await fetch(address, {
        method: method ?? (json !== undefined || body !== undefined ? "POST" : "GET"),
        headers: sent,
        body: json !== undefined ? JSON.stringify(json) : body,
        signal,
        cache: "no-store",
        credentials: "same-origin",
      });
    } catch (error) {
      if (error.name === "AbortError") throw error;
      throw (await findChangedFile(body)) ?? new ServerError(LOST, 0);
    }
    if (answer.ok) return answer;
    const said = await answer.json().catch(() => ({}));
    if (answer.status === 401 && askForToken && !quiet) {
      if (token !== readToken()) continue; // another request has asked meanwhile
      if (await askForToken(token ? said.error : null)) continue;
    }
    throw new ServerError(said.error ?? `The server answered with status ${answer.status}.`, answer.status);
  }
}

/** Return an error if a file of the body is no longer what was chosen: browsers refuse to send such a file. */
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
