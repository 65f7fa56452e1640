/* The cells of a map on canvas, the strongest value in every pixel. */

/** Paints a window of a map; `width` and `height` are the canvas's own pixels. */
function paintCells(scene, map, area, width, height) {
  const { palette, axes, selection } = scene;
  const canvas = element("canvas", { width: Math.max(1, Math.round(width)), height: Math.max(1, Math.round(height)) });
  const pixels = pixelsOf(map.cells, map.across || axes.nColumns, area, canvas.width, canvas.height);
  const context = canvas.getContext("2d");
  const image = context.createImageData(canvas.width, canvas.height);
  const colours = new Uint32Array(image.data.buffer);
  const packedColour = ([red, green, blue]) => (255 << 24) | (blue << 16) | (green << 8) | red;
  const shades = Object.fromEntries(Object.entries(palette.ramps).map(([name, colourRamp]) => [name, colourRamp.map(packedColour)]));
  const outside = packedColour(palette.outRgb);
  for (let at = 0; at < pixels.length; at++) {
    const value = pixels[at];
    if (Number.isNaN(value)) { colours[at] = outside; continue; }
    const name = map.scale === "signed" ? (value < 0 ? "loss" : "gain") : map.scale;
    colours[at] = shades[name][Math.round(placeOnScale(value, map.limit, selection.root) * SHADES)];
  }
  context.putImageData(image, 0, 0);
  return canvas;
}

/** A frame's cells at the screen's own resolution. */
function canvasOf(scene, frame) {
  return paintCells(scene, frame.map, scene.window, frame.across * scene.ratio, frame.down * scene.ratio);
}

const VECTOR_CELLS = 64 * 64;

/** For files: one rectangle a cell, or one embedded picture where there would be thousands. */
function cellsForFile(scene, frame) {
  const { window: [top, bottom, left, right], axes, palette, selection } = scene;
  const [rows, columns] = [bottom - top + 1, right - left + 1];
  if (rows * columns > VECTOR_CELLS) {
    const scale = Math.max(1, Math.ceil(1200 / columns));
    const canvas = paintCells(scene, frame.map, scene.window, columns * scale, rows * scale);
    return [svg("image", { x: frame.left, y: frame.top, width: frame.across, height: frame.down, href: canvas.toDataURL("image/png"), preserveAspectRatio: "none", "image-rendering": "pixelated" })];
  }
  const shapes = [];
  for (let row = top; row <= bottom; row++) {
    for (let column = left; column <= right; column++) {
      const value = frame.map.cells[row * axes.nColumns + column];
      const colour = Number.isNaN(value) ? palette.outRgb : colourOf(palette, value, frame.map.limit, frame.map.scale, selection.root);
      shapes.push(rectangle(frame.left + (column - left) * frame.cell.width, frame.top + (row - top) * frame.cell.height, frame.cell.width, frame.cell.height, rgbToHex(colour)));
    }
  }
  return shapes;
}
