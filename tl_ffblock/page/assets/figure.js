/* What is seen as a figure for paper or slides: a headline, the view's own drawing, the text below it; as SVG, and painted for PNG. */

/* Width of the file in pixels (96 an inch), width it is laid out at (type of 12 becomes 7 points on paper), height. */
const FIGURE_SIZES = { column: [326, 420, 0], page: [672, 900, 0], slide: [1280, 1280, 720] };

function wrapped(content, size, width, x, y, attributes) {
  return wrapText(content, size * (attributes["font-weight"] ? 1.2 : 1), width).map((line, index) => text(line, x, y + index * size * 1.3, { "font-size": size, ...attributes }));
}

/**
 * The view in the size asked for, with a headline above and note, sentence, model and version below; null where the view has no
 * drawing. A view's drawing is `{ groups, height }`; a group has a place, `pictures` of cells in it, and SVG nodes over these.
 */
function figureOf(bench) {
  const size = byId("figure-size").value;
  const onScreen = Math.max(640, bench.width);
  const [shown, width, tall] = FIGURE_SIZES[size] || [onScreen, onScreen, 0];
  const scene = { ...bench.scene, palette: paletteOf("light"), exporting: true, ratio: 4, inLine: size === "page" || size === "slide", room: tall && tall - 100, windowRoom: size === "screen" ? bench.scene.windowRoom : 0 };
  const view = bench.view();
  const drawing = view.figure && view.figure(scene, width - 16);
  if (!drawing) return null;
  const { ink, grey } = scene.palette;
  const words = view.words(scene);
  const head = wrapped(words.headline, 14, width - 16, 0, 12, { "font-weight": 600, fill: ink });
  const top = head.length * 18.2 + 10;
  const lines = [words.note, `${scene.data.model}: “${sentenceText(scene.data, scene.selection.run, 600)}”, ${words.place}. tl_ffblock ${scene.data.provenance.tl_ffblock || ""}`];
  const foot = wrapped(lines.filter(Boolean).join(" "), 9, width - 16, 0, top + drawing.height + 8, { fill: grey });
  const height = Math.max(top + drawing.height + foot.length * 11.7 + 8, tall - 16) + 16;
  const groups = drawing.groups.map((group) => ({ ...group, y: group.y + top }));
  return { scene, head, foot, groups, width, height, shown };
}

/** The figure as SVG; `cellsOf(group)` gives the shapes of a group's cells, `ground` what lies below all. */
function figureSvg({ scene, head, foot, groups, width, height, shown }, cellsOf, ground) {
  const drawn = groups.map((group) => svg("g", { transform: `translate(${group.x} ${group.y})` }, [...cellsOf(group), ...group.nodes]));
  const drawing = svg("svg", { xmlns: SVG, width: shown, height: (height * shown) / width, viewBox: `-8 -8 ${width} ${height}`, "font-family": FONT }, [
    hatchPattern(scene.palette), ...ground, ...head, ...drawn, ...foot,
  ]);
  return new XMLSerializer().serializeToString(drawing);
}

/** The figure with vector cells, as far as there are not too many. */
function vectorFigure(figure) {
  const { palette } = figure.scene;
  const most = vectorCells(figure.groups.flatMap(({ pictures }) => pictures));
  const cellsOf = ({ pictures }) => pictures.flatMap((place) => shapesOf(place, palette, most));
  return figureSvg(figure, cellsOf, [rectangle(-8, -8, figure.width, figure.height, palette.paper)]);
}

/** Paints the figure's ground and cells; what stands around them is drawn over it. */
function paintFigure(context, { scene, groups, width, height }) {
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
