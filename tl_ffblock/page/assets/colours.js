/* Colour ramps from the paper's colour to an ink, even steps to the eye (mixed in CIE Lab). No DOM. */

import { placeOnScale } from "./shares.js";

/* Gain and loss have the same lightness (L* 48), so that equal changes look equal; both are safe for colour-blind readers. */
export const THEMES = {
  light: {
    paper: "#ffffff", ink: "#17202a", grey: "#5b6672", line: "#8b95a1", out: "#f1f3f5", hatch: "#d9dee3",
    contribution: "#003f5c", gain: "#b35806", loss: "#6a5fc0", bias: "#4a4f57", mark: "#17202a", read: "#d0106f",
  },
  dark: {
    paper: "#14191f", ink: "#e8edf2", grey: "#a3adb8", line: "#66717d", out: "#1c232b", hatch: "#323c47",
    contribution: "#9fd8f5", gain: "#f0933f", loss: "#a398f0", bias: "#c3cad2", mark: "#ffffff", read: "#ff6ab0",
  },
};

export function hexToRgb(hex) {
  return [1, 3, 5].map((at) => parseInt(hex.slice(at, at + 2), 16));
}

function rgbToHex(rgb) {
  return "#" + rgb.map((part) => part.toString(16).padStart(2, "0")).join("");
}

/* sRGB <-> CIE Lab, white point D65: IEC 61966-2-1 and CIE 15. */
const WHITE = [0.95047, 1, 1.08883];
const TO_XYZ = [[0.4124564, 0.3575761, 0.1804375], [0.2126729, 0.7151522, 0.072175], [0.0193339, 0.119192, 0.9503041]];
const FROM_XYZ = [[3.2404542, -1.5371385, -0.4985314], [-0.969266, 1.8760108, 0.041556], [0.0556434, -0.2040259, 1.0572252]];

function times(matrix, vector) {
  return matrix.map((row) => row.reduce((sum, entry, i) => sum + entry * vector[i], 0));
}

/** @param {number[]} colour */
function linearOf(colour) {
  return colour.map((part) => (part / 255 <= 0.04045 ? part / 255 / 12.92 : ((part / 255 + 0.055) / 1.055) ** 2.4));
}

export function toLab(rgb) {
  const [x, y, z] = times(TO_XYZ, linearOf(rgb)).map((part, i) => part / WHITE[i]).map((t) => (t > 216 / 24389 ? Math.cbrt(t) : (24389 / 27 * t + 16) / 116));
  return [116 * y - 16, 500 * (x - y), 200 * (y - z)];
}

/** @param {number[]} colour */
function fromLab([lightness, a, b]) {
  const y = (lightness + 16) / 116;
  const xyz = [y + a / 500, y, y - b / 200].map((t, i) => WHITE[i] * (t ** 3 > 216 / 24389 ? t ** 3 : (116 * t - 16) * 27 / 24389));
  const encode = (part) => (part <= 0.0031308 ? 12.92 * part : 1.055 * part ** (1 / 2.4) - 0.055);
  return times(FROM_XYZ, xyz).map((part) => Math.round(255 * Math.min(1, Math.max(0, encode(Math.max(0, part))))));
}

export const SHADES = 256;

/** SHADES + 1 colours from one to another, as [red, green, blue].
 * @returns {number[][]} */
function ramp(from, to) {
  const [ground, ink] = [toLab(hexToRgb(from)), toLab(hexToRgb(to))];
  return Array.from({ length: SHADES + 1 }, (_, step) => fromLab(ground.map((part, i) => part + (ink[i] - part) * (step / SHADES))));
}

/** A colour as canvases store it.
 * @param {number[]} colour */
function packedColour([red, green, blue]) {
  return ((255 << 24) | (blue << 16) | (green << 8) | red) >>> 0;
}

const palettes = new Map();

/** A theme's inks, and its ramps as canvases store them (`shades`) and as documents do (`ramps`). */
export function paletteOf(name) {
  if (!palettes.has(name)) palettes.set(name, newPalette(name));
  return palettes.get(name);
}

function newPalette(name) {
  const theme = THEMES[name];
  const names = ["contribution", "gain", "loss", "bias"];
  /** @type {[string, number[][]][]} */
  const colours = names.map((ink) => [ink, ramp(theme.paper, theme[ink])]);
  const shades = Object.fromEntries(colours.map(([ink, steps]) => [ink, Uint32Array.from(steps, packedColour)]));
  const ramps = Object.fromEntries(colours.map(([ink, steps]) => [ink, steps.map((rgb) => ({ rgb, hex: rgbToHex(rgb), readable: readableOn(rgb) }))]));
  return { ...theme, name, ramps, shades, outside: packedColour(hexToRgb(theme.out)) };
}

/** Which of a palette's ramps a value has; `scale` is "signed", "removal", "contribution" or "bias". Orange supports the target, as a negative change by a removal says. */
export function rampName(value, scale) {
  if (scale === "removal") return value > 0 ? "loss" : "gain";
  return scale === "signed" ? (value < 0 ? "loss" : "gain") : scale;
}

/** The scale of numbers of a map, a table or a graph. */
export function scaleOf({ signed = true, removal = false }) {
  if (removal) return "removal";
  return signed ? "signed" : "contribution";
}

/** Whether a scale has two ends, one for each sign. */
export function hasTwoEnds(scale) {
  return scale === "signed" || scale === "removal";
}

/** The two ends of a scale of changes by a removal, in words. */
export const REMOVAL_ENDS = ["lowers the target", "raises it"];

/** The colour of a value on a scale that ends at `limit`: `rgb`, `hex`, and what is `readable` on it. */
export function shadeOf(palette, value, limit, scale, root = 0) {
  return palette.ramps[rampName(value, scale)][Math.round(placeOnScale(value, limit, root) * SHADES)];
}

/* Letters on colours, by preference: the page's ink, white, and black where neither has enough contrast. */
const LETTERS = ["#17202a", "#ffffff", "#000000"];
/* WCAG 2, level AA. */
const ENOUGH_CONTRAST = 4.5;

/** @param {number[]} colour */
function luminance(colour) {
  return times([TO_XYZ[1]], linearOf(colour))[0];
}

/** Letters that are read on a colour.
 * @param {number[]} colour */
export function readableOn(colour) {
  const ground = luminance(colour);
  const contrast = (hex) => {
    const ink = luminance(hexToRgb(hex));
    return (Math.max(ink, ground) + 0.05) / (Math.min(ink, ground) + 0.05);
  };
  return LETTERS.find((hex) => contrast(hex) >= ENOUGH_CONTRAST) || LETTERS[2];
}
