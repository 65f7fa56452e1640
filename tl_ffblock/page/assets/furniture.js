/* One map as SVG: title, axes, legend, strips, cells out of reach. The cells themselves come from cells.js. */

/** Indices from `first` to `last` that get a label, so that labels keep a readable distance; `always` is among them. */
function labelled(first, last, size, always) {
  const every = Math.max(1, Math.ceil(LABEL.spacing / size));
  const regular = Array.from({ length: Math.floor((last - first) / every) + 1 }, (_, i) => first + i * every);
  if (always < first || always > last || regular.includes(always)) return regular;
  return [...regular.filter((index) => Math.abs(index - always) >= every), always];
}

function labelSize(size) {
  return Math.min(size > 36 ? 14 : LABEL.size, Math.max(LABEL.smallest, size));
}

function rowLabels(scene, frame) {
  const { axes, palette, window: [first, last] } = scene;
  const size = labelSize(frame.cell.height);
  return labelled(first, last, frame.cell.height, scene.row).flatMap((row) => {
    const y = frame.top + (row - first + 0.5) * frame.cell.height + size * 0.35;
    const weight = row === scene.row ? { "font-weight": 700 } : {};
    const index = text(axes.rows[row].position, frame.left - 5, y, { "text-anchor": "end", "font-size": LABEL.index, fill: palette.grey });
    if (!frame.fullLabels) return [index];
    const room = frame.left - indexWidth(scene) - LABEL.axis;
    const token = fitText(frame.map.labels[axes.own[row]], size, Math.max(20, room));
    return [index, text(token, frame.left - indexWidth(scene), y, { "text-anchor": "end", "font-size": size, fill: palette.ink, ...weight })];
  });
}

function columnLabels(scene, frame) {
  const { axes, palette, window: [, , left, right] } = scene;
  const size = labelSize(frame.cell.width);
  return labelled(left, right, frame.cell.width, scene.column).flatMap((column) => {
    const x = frame.left + (column - left + 0.5) * frame.cell.width + size * 0.35;
    const weight = column === scene.column ? { "font-weight": 700 } : {};
    return [
      upright(axes.columns[column].position, x, frame.top - 5, { "font-size": LABEL.index, fill: palette.grey }),
      upright(fitText(frame.map.labels[column], size, LABEL.column), x, frame.top - indexWidth(scene), { "font-size": size, fill: palette.ink, ...weight }),
    ];
  });
}

function axisTitles(scene, frame) {
  const style = { "font-size": 11, fill: scene.palette.grey };
  const middle = frame.top + frame.down / 2;
  const word = frame.down < 150 ? "← to" : "← to (destination, query)";
  return [
    text("from (source, key) →", frame.left, TITLE_HEIGHT + 12, style),
    upright(word, 11, middle, { ...style, "text-anchor": "middle" }),
  ];
}

function titles(scene, frame) {
  const { palette } = scene;
  const room = frame.width - (scene.exporting ? 0 : 30);
  return [
    text(fitText(titleOf(scene, frame.map), 14, room), 0, 14, { "font-size": 14, "font-weight": 600, fill: palette.ink }),
    text(fitText(subtitleOf(scene, frame.map), 12, frame.width), 0, 31, { fill: palette.grey }),
  ];
}

/** A thin column beside the map, one number per row: shares on the scale of shares, norms on their own. */
function strip(scene, frame, name, order) {
  const { palette, window: [first, last] } = scene;
  const x = frame.left + frame.across + STRIP.gap + order * (STRIP.width + STRIP.gap);
  const values = frame.map.columns[name];
  const signed = frame.map.scale === "signed";
  const limit = name === "own" && !signed ? 1 : largest(values.map(Math.abs));
  const cells = [];
  for (let row = first; row <= last; row++) {
    const colour = Number.isNaN(values[row]) ? palette.outRgb : colourOf(palette, values[row], limit, signed ? "signed" : "bias");
    cells.push(rectangle(x, frame.top + (row - first) * frame.cell.height, STRIP.width, frame.cell.height, rgbToHex(colour)));
  }
  return [
    ...cells,
    svg("rect", { x, y: frame.top, width: STRIP.width, height: frame.down, fill: "none", stroke: palette.line }),
    upright(name, x + STRIP.width - 2, frame.top - 5, { "font-size": 11, fill: palette.grey }),
  ];
}

function legend(scene, frame) {
  const { palette, selection } = scene;
  const { map, left } = frame;
  const y = frame.top + frame.down + 10;
  const width = Math.min(190, frame.width - left - 26);
  const from = map.scale === "signed" ? -map.limit : 0;
  const steps = 48;
  const bar = Array.from({ length: steps }, (_, i) => {
    const value = from + ((i + 0.5) / steps) * (map.limit - from);
    return rectangle(left + (i * width) / steps, y, width / steps + 0.5, 10, rgbToHex(colourOf(palette, value, map.limit, map.scale, selection.root)));
  });
  const border = svg("rect", { x: left, y, width, height: 10, fill: "none", stroke: palette.line });
  const remarks = frame.notes.map((line, index) => text(line, left, y + 38 + 14 * index, { "font-size": 11, fill: palette.grey }));
  return [...bar, border, ...legendTicks(scene, frame, y + 22, width, from), ...remarks];
}

function legendTicks(scene, frame, y, width, from) {
  const { map, left } = frame;
  const clipped = isClipped(map);
  const sign = (value) => (from < 0 && value > 0 ? "+" : "");
  const tick = (share, anchor, prefix = "") => {
    const value = from + share * (map.limit - from);
    return text(prefix + sign(value) + formatRough(value, scene.asShare), left + share * width, y, { "font-size": 11, "text-anchor": anchor, fill: scene.palette.ink });
  };
  return [tick(0, "start", clipped && from < 0 ? "≤ " : ""), tick(0.5, "middle"), tick(1, "end", clipped ? "≥ " : "")];
}

const HATCH = "not-reachable";

function hatchPattern(palette) {
  return svg("defs", {}, [
    svg("pattern", { id: HATCH, width: 6, height: 6, patternUnits: "userSpaceOnUse", patternTransform: "rotate(45)" }, [
      rectangle(0, 0, 6, 6, palette.out), rectangle(0, 0, 1, 6, palette.hatch),
    ]),
  ]);
}

/** One path over all cells of the window that a causal model cannot reach. */
function unreachable(scene, frame) {
  const { data, axes, window: [top, bottom, left, right] } = scene;
  if (!data.causal) return [];
  const runs = [];
  for (let row = top; row <= bottom; row++) {
    const first = Math.max(left, axes.own[row] + 1);
    const width = (right + 1 - first) * frame.cell.width;
    if (width > 0) runs.push(`M${frame.left + (first - left) * frame.cell.width} ${frame.top + (row - top) * frame.cell.height}h${width}v${frame.cell.height}h${-width}z`);
  }
  return runs.length ? [svg("path", { d: runs.join(""), fill: `url(#${HATCH})`, class: "unreachable" })] : [];
}

/** Everything of a map but its cells; drawn above them. */
function furniture(scene, frame) {
  const strips = scene.strips.filter((name) => frame.map.columns[name]);
  return [
    ...titles(scene, frame), ...axisTitles(scene, frame), ...rowLabels(scene, frame), ...columnLabels(scene, frame),
    ...unreachable(scene, frame),
    svg("rect", { x: frame.left, y: frame.top, width: frame.across, height: frame.down, fill: "none", stroke: scene.palette.line }),
    ...strips.flatMap((name, order) => strip(scene, frame, name, order)),
    ...legend(scene, frame),
  ];
}
