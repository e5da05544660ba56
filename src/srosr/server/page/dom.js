// Elements are built here and nowhere from strings: data can never become markup.

const SVG = "http://www.w3.org/2000/svg";

/** Return the element with this id. */
export const find = (id) => document.getElementById(id);

/** Build an element. Properties: `class`, `on` (listeners), `data`, DOM properties, or attributes as `aria-label`. */
export function h(tag, properties = {}, ...children) {
  const element = document.createElement(tag);
  for (const [name, value] of Object.entries(properties)) {
    if (value === null || value === undefined || value === false) continue;
    if (name === "class") element.className = value;
    else if (name === "on")
      for (const [event, listener] of Object.entries(value)) element.addEventListener(event, listener);
    else if (name === "data") Object.assign(element.dataset, value);
    else if (name in element && !name.startsWith("aria-") && name !== "list" && name !== "role") element[name] = value;
    else element.setAttribute(name, value === true ? "" : value);
  }
  element.append(...flatten(children));
  return element;
}

/** Children may be nested in lists; those that are null, undefined or false are left out. */
const flatten = (children) =>
  children.flat(Infinity).filter((child) => child !== null && child !== undefined && child !== false);

/** Build an SVG element. */
export function s(tag, attributes = {}, ...children) {
  const element = document.createElementNS(SVG, tag);
  for (const [name, value] of Object.entries(attributes)) {
    if (value !== null && value !== undefined) element.setAttribute(name, value);
  }
  element.append(...flatten(children));
  return element;
}

/** Replace what an element holds. */
export function fill(element, ...children) {
  element.replaceChildren(...flatten(children));
  return element;
}

/** Give the focus to the heading of the card, or of the dialog, that an element is in. */
export function focusHeading(element) {
  const heading = headingOf(element);
  if (!heading) return;
  heading.tabIndex = -1;
  heading.focus({ preventScroll: true });
}

const headingOf = (element) => find(element.closest("[aria-labelledby]")?.getAttribute("aria-labelledby"));

/**
 * Run `work`, which draws parts of `root` anew. The focus stays on what it was on, known by `data-focus` or its id;
 * where that is gone, it goes to the heading of the card.
 */
export function keepFocus(root, work) {
  const held = document.activeElement;
  const inside = root.contains(held);
  const key = inside ? (held.dataset.focus ?? held.id) : "";
  const heading = inside ? headingOf(held)?.id : null;
  work();
  if (!inside || document.activeElement === held) return;
  const name = CSS.escape(key);
  const again = held.isConnected ? held : key && root.querySelector(`[data-focus="${name}"], [id="${name}"]`);
  if (again) again.focus({ preventScroll: true });
  if (document.activeElement === document.body && heading && find(heading)) {
    find(heading).tabIndex = -1;
    find(heading).focus({ preventScroll: true });
  }
}

/** Say something to screen readers, without moving the focus. While a dialog is open, only what is in it is heard. */
export function announce(text) {
  const region = document.querySelector("dialog[open] [aria-live]") ?? find("announcements");
  region.textContent = "";
  requestAnimationFrame(() => {
    region.textContent = text;
  });
}

/** Hand a file to the browser to save. */
export function download(name, type, text) {
  const address = URL.createObjectURL(new Blob([text], { type }));
  const link = h("a", { href: address, download: name });
  document.body.append(link);
  link.click();
  link.remove();
  setTimeout(() => URL.revokeObjectURL(address), 10_000);
}

/** Return a function that runs `work` at most once a frame. */
export function oncePerFrame(work) {
  let waiting = false;
  return () => {
    if (waiting) return;
    waiting = true;
    // A hidden tab draws no frames; a timer makes sure that the work is done there, too.
    let done = false;
    const run = () => {
      if (done) return;
      done = true;
      waiting = false;
      work();
    };
    requestAnimationFrame(run);
    setTimeout(run, 200);
  };
}
