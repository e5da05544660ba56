// Pictures of samples whose numbers are gray values.
import { h } from "./dom.js";

/** Draw numbers as a picture of this shape: the largest is ink, as on paper. */
export function paint(values, [height, width]) {
  const canvas = h("canvas.pixels", { width, height, ariaHidden: "true" });
  const most = Math.max(...values, 1e-12);
  const gray = (value) => 255 * (1 - Math.max(value, 0) / most);
  const pixels = new Uint8ClampedArray(values.flatMap((value) => [gray(value), gray(value), gray(value), 255]));
  canvas.getContext("2d").putImageData(new ImageData(pixels, width, height), 0, 0);
  return canvas;
}

/** Return the picture of a sample in a frame, or null if it has none. */
export function thumbnail(samples, row, size = "small") {
  const picture = samples?.picture(row);
  return picture && h(`span.thumbnail.${size}`, picture);
}
