/* Small tools for SVG, HTML and the width of words. */

import { letters } from "./text.js";

export const SVG = "http://www.w3.org/2000/svg";
export const FONT = "system-ui, -apple-system, 'Segoe UI', 'Helvetica Neue', Arial, 'DejaVu Sans', sans-serif";

export function svg(name, attributes = {}, children = []) {
  const node = document.createElementNS(SVG, name);
  for (const [key, value] of Object.entries(attributes)) node.setAttribute(key, value);
  node.append(...children);
  return node;
}

export function rectangle(x, y, width, height, fill) {
  return svg("rect", { x, y, width: Math.max(0, width), height: Math.max(0, height), fill, "shape-rendering": "crispEdges" });
}

export function text(content, x, y, attributes = {}) {
  return svg("text", { x, y, "font-size": 12, ...attributes }, [content]);
}

export function upright(content, x, y, attributes) {
  return text(content, x, y, { transform: `rotate(-90 ${x} ${y})`, ...attributes });
}

export function element(name, properties = {}, children = []) {
  const node = Object.assign(document.createElement(name), properties);
  node.append(...children);
  return node;
}

/** Writes a text where it is another than what stands there, else the browser would lay it out anew. */
export function writeText(node, content) {
  if (node.textContent !== content) node.textContent = content;
}

/** Colours a token's chip: its ground, and a stripe below, as `shadeOf` has them; either may be missing. */
export function colourChip(chip, ground, stripe) {
  chip.style.backgroundColor = ground ? ground.hex : "";
  chip.style.color = ground ? ground.readable : "";
  chip.style.boxShadow = stripe ? `inset 0 -4px ${stripe.hex}` : "";
}

/** A token on the ground of its share, the number below it. */
export function shareChip(label, number, title, ground) {
  const chip = element("li", { className: "chip", title }, [element("bdi", { textContent: label }), element("span", { textContent: number })]);
  colourChip(chip, ground, null);
  chip.classList.toggle("negative", number.startsWith("−"));
  return chip;
}

/** An element of the page\'s own; which kind it is, is not checked.
 * @returns {any} */
export function byId(id) {
  return document.getElementById(id);
}

const ruler = document.createElement("canvas").getContext("2d");
const MEASURED = 20000;
const measured = new Map();

export function textWidth(content, size) {
  const key = `${size} ${content}`;
  if (!measured.has(key)) {
    if (measured.size > MEASURED) measured.clear();
    ruler.font = `${size}px ${FONT}`;
    measured.set(key, ruler.measureText(content).width);
  }
  return measured.get(key);
}

/** The text, cut with an ellipsis where it is wider than `width`. */
export function fitText(content, size, width) {
  if (textWidth(content, size) <= width) return content;
  const kept = letters(content.slice(0, 400));
  while (kept.length > 1 && textWidth(kept.join("") + "…", size) > width) kept.pop();
  return kept.join("") + "…";
}

export function wrapText(content, size, width) {
  const lines = [""];
  for (const word of content.split(" ")) {
    const longer = lines[lines.length - 1] ? `${lines[lines.length - 1]} ${word}` : word;
    if (lines[lines.length - 1] && textWidth(longer, size) > width) lines.push(word);
    else lines[lines.length - 1] = longer;
  }
  return lines;
}
