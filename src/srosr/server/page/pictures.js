// Pictures of samples whose numbers are gray values.
import { h } from "./dom.js";

/** Draw numbers as a picture of this shape: the largest is ink, as on paper. */
export function paint(values, [height, width]) {
  const canvas = h("canvas", { width, height, class: "pixels", "aria-hidden": "true" });
  const context = canvas.getContext("2d");
  const picture = context.createImageData(width, height);
  const most = Math.max(...values, 1e-12);
  values.forEach((value, i) => {
    const gray = 255 * (1 - Math.max(value, 0) / most);
    picture.data.set([gray, gray, gray, 255], 4 * i);
  });
  context.putImageData(picture, 0, 0);
  return canvas;
}

/** Return the picture of a sample in a frame, or null if it has none. */
export function thumbnail(samples, row, size = "small") {
  const picture = samples?.picture(row);
  return picture ? h("span", { class: `thumbnail ${size}` }, picture) : null;
}
