/*
 * Cells as pictures. A picture is `{ cells, nColumns, window, scale, limit, root }`: numbers, how many stand in a line, which
 * part is drawn ([first row, last row, first column, last column]), and how colours are scaled.
 */

import { SHADES, rampName, shadeOf } from "./colours.js";
import { pixelsOf, placeOnScale } from "./shares.js";
import { element, rectangle, svg } from "./svg.js";

/**
 * A picture on a canvas of one pixel a cell, which the browser enlarges (CSS `image-rendering`), or of `width` x `height`
 * where the screen has fewer pixels than there are cells: then the strongest cell in every pixel.
 */
export function paint(picture, palette, width, height, canvas = element("canvas")) {
  const [top, bottom, left, right] = picture.window;
  const wide = Math.max(1, Math.min(right - left + 1, Math.floor(width)));
  const high = Math.max(1, Math.min(bottom - top + 1, Math.floor(height)));
  if (canvas.width !== wide || canvas.height !== high) Object.assign(canvas, { width: wide, height: high });
  const pixels = pixelsOf(picture.cells, picture.nColumns, picture.window, wide, high);
  const context = canvas.getContext("2d");
  const image = context.createImageData(wide, high);
  const colours = new Uint32Array(image.data.buffer);
  for (let at = 0; at < pixels.length; at++) {
    const value = pixels[at];
    const shades = palette.shades[rampName(value, picture.scale)];
    colours[at] = Number.isNaN(value) ? palette.outside : shades[Math.round(placeOnScale(value, picture.limit, picture.root) * SHADES)];
  }
  context.putImageData(image, 0, 0);
  return canvas;
}

export function placed(node, x, y, width, height) {
  Object.assign(node.style, { position: "absolute", left: `${x}px`, top: `${y}px`, width: `${width}px`, height: `${height}px` });
  return node;
}

/** One canvas for pictures that are copied at once. */
export const scratch = document.createElement("canvas");
scratch.getContext("2d", { willReadFrequently: true });

const VECTOR_CELLS = 64 * 64;
const FINE = 4;

/** A canvas enlarged by whole steps to about `FINE` times its width in a file, for programs that would blur it. */
function enlarged(canvas, width) {
  const step = Math.max(1, Math.ceil((FINE * width) / canvas.width));
  const large = element("canvas", { width: canvas.width * step, height: canvas.height * step });
  const context = large.getContext("2d");
  context.imageSmoothingEnabled = false;
  context.drawImage(canvas, 0, 0, large.width, large.height);
  return large;
}

function cellCount({ picture: { window: [top, bottom, left, right] } }) {
  return (bottom - top + 1) * (right - left + 1);
}

/** Up to how many cells one of these pictures has a rectangle for each, so that a file stays small. */
export function vectorCells(places) {
  const total = places.reduce((sum, place) => sum + cellCount(place), 0);
  return total > 4 * VECTOR_CELLS ? VECTOR_CELLS / 8 : VECTOR_CELLS;
}

/**
 * A picture in its place, for a file: the strongest cell in each of the pixels of a fine print. Cells larger than a pixel of
 * the page are enlarged by whole steps and kept sharp; where smaller ones are shown small they are mixed, which loses none.
 */
function embedded({ picture, x, y, width, height }, palette) {
  const cells = paint(picture, palette, FINE * width, FINE * height, scratch);
  const sharp = cells.width <= width && cells.height <= height;
  const href = (sharp ? enlarged(cells, width) : cells).toDataURL("image/png");
  return svg("image", { x, y, width, height, href, preserveAspectRatio: "none", ...(sharp ? { "image-rendering": "pixelated" } : {}) });
}

/** For files, a picture in its place: one rectangle a cell, or one embedded picture where there are more than `most`. */
export function shapesOf(place, palette, most) {
  const { picture, x, y, width, height } = place;
  const [top, bottom, left, right] = picture.window;
  const [rows, columns] = [bottom - top + 1, right - left + 1];
  if (rows * columns > most) return [embedded(place, palette)];
  const [wide, high] = [width / columns, height / rows];
  return Array.from({ length: rows * columns }, (_, index) => {
    const [row, column] = [Math.floor(index / columns), index % columns];
    const value = picture.cells[(top + row) * picture.nColumns + left + column];
    const colour = Number.isNaN(value) ? palette.out : shadeOf(palette, value, picture.limit, picture.scale, picture.root).hex;
    return rectangle(x + column * wide, y + row * high, wide, high, colour);
  });
}
