/* The cells of a map of an image's tokens: their colours over the picture. */

import { rampName, scaleOf } from "./colours.js";
import { rectangle, svg } from "./svg.js";

/* Pixels that a picture is wide and high at most, and how much of it the largest number's colour covers. */
const PICTURE = { wide: 480, high: 480, covers: 0.8 };

/** Widths and heights of the cells of a map over its picture. */
export function pictureCells({ rows, columns, aspect }, width) {
  const wide = Math.min(PICTURE.wide, PICTURE.high / aspect, width);
  return { cell: wide / columns.length, tall: (wide * aspect) / rows.length };
}

/** The picture below, above it each cell in its colour, deeper for larger numbers. */
export function pictureNodes(palette, map, limit, { left, top, cell, tall, wide, high }) {
  const cells = map.values.flatMap((row, r) => row.map((value, c) => {
    const drawn = rectangle(left + c * cell, top + r * tall, cell, tall, palette[rampName(value, scaleOf(map))]);
    drawn.setAttribute("fill-opacity", String(limit ? PICTURE.covers * Math.min(1, Math.abs(value) / limit) : 0));
    return drawn;
  }));
  const image = svg("image", { href: map.picture, x: left, y: top, width: wide, height: high, preserveAspectRatio: "none" });
  return [image, svg("g", {}, cells)];
}
