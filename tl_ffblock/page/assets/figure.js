/* What is seen as a figure for paper or slides: a headline, the view's own drawing, the text below it; as SVG, and painted for PNG. */

import { paint, scratch, shapesOf, vectorCells } from "./cells.js";
import { paletteOf } from "./colours.js";
import { hatchPattern } from "./furniture.js";
import { modelReading } from "./phrases.js";
import { FONT, SVG, byId, rectangle, svg, text, wrapText } from "./svg.js";

/* Width of the file in pixels (96 an inch), width it is laid out at (type of 12 becomes 7 points on paper), height that a slide has at most. */
const FIGURE_SIZES = { column: [326, 420, 0], page: [672, 900, 0], slide: [1280, 1280, 720] };
/* Pixels of the file that a figure for paper may be high. */
const SHEET = 9 * 96;
/* Pixels that a file is wide at least where it is as wide as what is drawn. */
const NARROWEST = 420;

/** What a figure of this size can be of: all maps where there is room for them, or one. */
function figureMaps({ maps }, size) {
  const roles = maps.map(({ role }) => role);
  return maps.length < 2 ? [""] : size === "column" ? roles : ["", ...roles];
}

/** What a figure is of unless asked otherwise: what is seen; in one column, of several maps the last, which is their difference. */
function usualMaps(scene, size) {
  const { panel } = scene.selection;
  const roles = figureMaps(scene, size);
  return roles.includes(panel) ? panel : roles[roles.length - 1];
}

/** The size and the maps that are asked for. */
export function figureChoice({ scene, figureOfMap }) {
  const size = byId("figure-size").value;
  const roles = figureMaps(scene, size);
  return { size, panel: roles.includes(figureOfMap) ? figureOfMap : usualMaps(scene, size), roles };
}

/** Pixels that the file is wide, that it is laid out at, and that a slide is high. */
function figureWidths(bench, size) {
  const onScreen = Math.max(640, bench.width);
  return FIGURE_SIZES[size] || [onScreen, onScreen, 0];
}

/** The scene as a file has it: light, with the maps that are asked for. */
export function figureScene(bench) {
  const { size, panel } = figureChoice(bench);
  const { scene } = bench;
  return { ...scene, selection: { ...scene.selection, panel }, width: figureWidths(bench, size)[1] - 16, palette: paletteOf("light"), exporting: true, striped: size === "column" || size === "page", ratio: 4, inLine: size === "page" || size === "slide", windowRoom: size === "screen" ? scene.windowRoom : 0 };
}

const HEAD = { size: 14, "font-weight": 600 };
const FOOT = { size: 9 };
const LINE = 1.3;

function wrapped(content, { size, ...attributes }, width) {
  return wrapText(content, size * (attributes["font-weight"] ? 1.2 : 1), width);
}

function writtenLines(lines, { size, ...attributes }, y, fill) {
  return lines.map((line, index) => text(line, 0, y + index * size * LINE, { "font-size": size, fill, ...attributes }));
}

/**
 * The view in the size asked for, with a headline above and note, sentence, model and version below; null where the view has no
 * drawing. A view's drawing is `{ groups, width, height }`, at most `scene.room` high where that is not 0; a group has a place,
 * `pictures` of cells in it, and SVG nodes over these. On screen and slides the file is at most as wide as what is drawn; on paper it is
 * as wide as its column.
 */
export function figureOf(bench) {
  const { size } = figureChoice(bench);
  const [shown, laid, tall] = figureWidths(bench, size);
  const scene = figureScene(bench);
  const view = bench.view();
  if (!view.figure) return null;
  const words = view.words(scene);
  const lines = [words.note, `${modelReading(scene.data, scene.selection, 600)}${words.place && `, ${words.place}`}. tl_ffblock ${scene.data.provenance.tl_ffblock || ""}`];
  const around = (width) => {
    const [head, foot] = [wrapped(words.headline, HEAD, width - 16), wrapped(lines.filter(Boolean).join(" "), FOOT, width - 16)];
    const top = head.length * HEAD.size * LINE + 10;
    return { head, foot, top, beyond: top + foot.length * FOOT.size * LINE + 8 + 16 };
  };
  const room = (beyond) => (size === "screen" ? 0 : (tall || (SHEET * laid) / shown) - beyond);
  const draw = (width) => view.figure({ ...scene, room: room(around(width).beyond) }, scene.width);
  const cropped = ({ width = laid - 16 }) => (shown === laid ? Math.min(laid, Math.max(NARROWEST, Math.ceil(width) + 16)) : laid);
  const first = draw(laid);
  if (!first) return null;
  const width = cropped(first);
  const drawing = width < laid && tall ? draw(width) : first; // narrower lines of text are more, and leave less room
  const { head, foot, top, beyond } = around(width);
  const { ink, grey } = scene.palette;
  return {
    scene, width, shown: (shown * width) / laid, height: drawing.height + beyond, groups: drawing.groups.map((group) => ({ ...group, y: group.y + top })),
    head: writtenLines(head, HEAD, 12, ink), foot: writtenLines(foot, FOOT, top + drawing.height + 8, grey),
  };
}

/** The figure as SVG; `cellsOf(group)` gives the shapes of a group's cells, `ground` what lies below all. */
export function figureSvg({ scene, head, foot, groups, width, height, shown }, cellsOf, ground) {
  const drawn = groups.map((group) => svg("g", { transform: `translate(${group.x} ${group.y})` }, [...cellsOf(group), ...group.nodes]));
  const drawing = svg("svg", { xmlns: SVG, width: shown, height: (height * shown) / width, viewBox: `-8 -8 ${width} ${height}`, "font-family": FONT }, [
    hatchPattern(scene.palette), ...ground, ...head, ...drawn, ...foot,
  ]);
  return new XMLSerializer().serializeToString(drawing);
}

/** The figure with vector cells, as far as there are not too many. */
export function vectorFigure(figure) {
  const { palette } = figure.scene;
  const most = vectorCells(figure.groups.flatMap(({ pictures }) => pictures));
  const cellsOf = ({ pictures }) => pictures.flatMap((place) => shapesOf(place, palette, most));
  return figureSvg(figure, cellsOf, [rectangle(-8, -8, figure.width, figure.height, palette.paper)]);
}

/** Paints the figure's ground and cells; what stands around them is drawn over it. */
export function paintFigure(context, { scene, groups, width, height }) {
  const [across, down] = [context.canvas.width / width, context.canvas.height / height];
  context.setTransform(across, 0, 0, down, 8 * across, 8 * down);
  context.imageSmoothingEnabled = false;
  context.fillStyle = scene.palette.paper;
  context.fillRect(-8, -8, width, height);
  for (const group of groups) {
    for (const { picture, x, y, width: wide, height: high } of group.pictures) {
      context.drawImage(paint(picture, scene.palette, wide * across, high * down, scratch), group.x + x, group.y + y, wide, high);
    }
  }
  context.setTransform(1, 0, 0, 1, 0, 0);
}
