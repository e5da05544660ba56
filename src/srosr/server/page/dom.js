// Elements are built here and nowhere from strings: data can never become markup.

const SVG = "http://www.w3.org/2000/svg";

/** Return the element with this id. */
export const find = (id) => document.getElementById(id);

/**
 * Build an element: h("p.quiet", {title: "…"}, children…). Properties are those of the DOM, or attributes such as
 * `aria-labelledby`; they may be left out. Children may be nested in lists, and null or false, which is nothing.
 */
export function h(description, ...children) {
  const [tag, ...classes] = description.split(".");
  const properties = children[0]?.constructor === Object ? children.shift() : {};
  const element = document.createElement(tag);
  if (tag === "button") element.type = "button";
  element.classList.add(...classes);
  for (const [name, value] of Object.entries(properties)) {
    if (value === null || value === undefined) continue;
    if (name === "style" || name === "dataset") Object.assign(element[name], value);
    else if (name in element) element[name] = value;
    else element.setAttribute(name, value);
  }
  return fill(element, children);
}

/** Build an SVG element. */
export function s(tag, attributes, ...children) {
  const element = document.createElementNS(SVG, tag);
  for (const [name, value] of Object.entries(attributes)) element.setAttribute(name, value);
  return fill(element, children);
}

/** Replace what an element holds; return the element. */
export function fill(element, ...children) {
  const kept = children.flat(Infinity).filter((child) => child !== null && child !== undefined && child !== false);
  element.replaceChildren(...kept);
  return element;
}

/** Give the focus to the heading of the card, or of the dialog, that an element is in. */
export function focusHeading(element) {
  const heading = findHeading(element);
  if (!heading) return;
  heading.tabIndex = -1;
  heading.focus({ preventScroll: true });
}

const findHeading = (element) => find(element.closest("[aria-labelledby]")?.getAttribute("aria-labelledby"));

/**
 * Run `work`, which draws parts of `root` anew. The focus stays on what it was on, known by `data-focus` or its id;
 * where that is gone, it goes to the heading of the card.
 */
export function keepFocus(root, work) {
  const held = document.activeElement;
  const inside = root.contains(held);
  const heading = inside && findHeading(held)?.id;
  work();
  if (!inside || document.activeElement === held) return;
  const name = CSS.escape(held.dataset.focus ?? held.id);
  const again = name && root.querySelector(`[data-focus="${name}"], [id="${name}"]`);
  if (again) again.focus({ preventScroll: true });
  if (document.activeElement === document.body && find(heading)) focusHeading(find(heading));
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
  h("a", { href: address, download: name }).click();
  setTimeout(() => URL.revokeObjectURL(address), 10_000);
}
