/* The colours of a map of an image's tokens over the picture. */

import { rampName, scaleOf } from "./colours.js";
import { svg } from "./svg.js";

/* How much of the picture the largest number's colour covers. */
const COVERS = 0.8;

/** Each cell in its colour, which covers more of the picture for a larger number; none where a map has no picture. */
export function overPicture(palette, map, limit, { left, cell, tall }, top) {
  const drawn = (value, r, c) => svg("rect", { x: left + c * cell, y: top + r * tall, width: cell, height: tall, fill: palette[rampName(value, scaleOf(map))], "fill-opacity": COVERS * Math.abs(value) / (limit || 1) });
  return map.picture ? map.values.flatMap((row, r) => row.map((value, c) => drawn(value, r, c))) : [];
}
