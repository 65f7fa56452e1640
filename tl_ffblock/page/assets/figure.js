/* One map as SVG: title, axes, legend, bias column, cells that cannot be reached. The cells themselves come from cells.js. */

const GREY = "#5b6672";

/** Positions that get a label, so that labels keep a readable distance. */
function labelled(count, size) {
  const every = Math.max(1, Math.ceil(LABEL.spacing / size));
  return Array.from({ length: Math.ceil(count / every) }, (_, i) => i * every);
}

function rowLabels(data, frame) {
  const size = Math.min(LABEL.size, Math.max(LABEL.smallest, frame.cell.height));
  return labelled(data.nRows, frame.cell.height).flatMap((row) => {
    const y = frame.top + (row + 0.5) * frame.cell.height + size * 0.35;
    const position = data.queries[row];
    const index = text(position, frame.left - 5, y, { "text-anchor": "end", "font-size": LABEL.index, fill: GREY });
    const token = fitText(data.tokens[position], size, LABEL.row);
    return frame.fullLabels ? [index, text(token, frame.left - indexWidth(data), y, { "text-anchor": "end", "font-size": size })] : [index];
  });
}

function upright(content, x, y, attributes) {
  return text(content, x, y, { transform: `rotate(-90 ${x} ${y})`, ...attributes });
}

function columnLabels(data, frame) {
  const size = Math.min(LABEL.size, Math.max(LABEL.smallest, frame.cell.width));
  return labelled(data.nColumns, frame.cell.width).flatMap((column) => {
    const x = frame.left + (column + 0.5) * frame.cell.width + size * 0.35;
    return [
      upright(column, x, frame.top - 5, { "font-size": LABEL.index, fill: GREY }),
      upright(fitText(data.tokens[column], size, LABEL.column), x, frame.top - indexWidth(data), { "font-size": size }),
    ];
  });
}

function axisTitles(frame) {
  const style = { "font-size": 11, fill: GREY };
  const middle = frame.top + frame.down / 2;
  const word = frame.down < 150 ? "← destination" : "← destination position (query)";
  return [
    text("source token (key) →", frame.left, TITLE_HEIGHT + 12, style),
    upright(word, 11, middle, { ...style, "text-anchor": "middle" }),
  ];
}

function titles(view, frame) {
  return [
    text(fitText(titleOf(view, frame.map), 14, frame.width), 0, 14, { "font-size": 14, "font-weight": 600 }),
    text(fitText(subtitleOf(view, frame.map), 12, frame.width), 0, 31, { fill: GREY }),
  ];
}

/** A thin column beside the map, one number per row, on a scale of its own. */
function strip(view, frame, name, order) {
  const x = frame.left + frame.across + STRIP.gap + order * (STRIP.width + STRIP.gap);
  const values = frame.map[name];
  const limit = largest(Array.from(values, Math.abs));
  const scale = frame.map.scale === "signed" ? "signed" : "bias";
  const cells = Array.from(values, (value, row) =>
    rectangle(x, frame.top + row * frame.cell.height, STRIP.width, frame.cell.height, rgbToHex(colourOf(value, limit, scale))));
  return [
    ...cells,
    svg("rect", { x, y: frame.top, width: STRIP.width, height: frame.down, fill: "none", stroke: "#b4bcc6" }),
    upright(name, x + STRIP.width - 2, frame.top - 5, { "font-size": 11, fill: GREY }),
  ];
}

function legend(view, frame) {
  const { map, left } = frame;
  const y = frame.top + frame.down + 12;
  const width = Math.min(190, frame.width - left - 10);
  const from = map.scale === "signed" ? -map.limit : 0;
  const steps = 48;
  const bar = Array.from({ length: steps }, (_, i) => {
    const value = from + ((i + 0.5) / steps) * (map.limit - from);
    return rectangle(left + (i * width) / steps, y, width / steps + 0.5, 10, rgbToHex(colourOf(value, map.limit, map.scale)));
  });
  const border = svg("rect", { x: left, y, width, height: 10, fill: "none", stroke: "#b4bcc6" });
  return [...bar, border, ...legendTicks(view, frame, y + 23, width, from), ...notes(frame, y + 40)];
}

function legendTicks(view, frame, y, width, from) {
  const { map, left } = frame;
  const asShare = view.choice.normalise !== "none";
  const clipped = isClipped(map);
  const tick = (share, anchor, prefix = "") =>
    text(prefix + formatRough(from + share * (map.limit - from), asShare), left + share * width, y, { "font-size": 11, "text-anchor": anchor });
  return [tick(0, "start", clipped && from < 0 ? "≤ " : ""), tick(0.5, "middle"), tick(1, "end", clipped ? "≥ " : "")];
}

function notes(frame, y) {
  return frame.notes.map((line, index) => text(line, frame.left, y + 15 * index, { "font-size": 11, fill: GREY }));
}

const HATCH = "not-reachable";

function hatchPattern() {
  return svg("defs", {}, [
    svg("pattern", { id: HATCH, width: 6, height: 6, patternUnits: "userSpaceOnUse", patternTransform: "rotate(45)" }, [
      rectangle(0, 0, 6, 6, NOT_REACHABLE), rectangle(0, 0, 1, 6, "#d3d8de"),
    ]),
  ]);
}

/** One path over all cells that a causal model cannot reach. */
function unreachable(data, frame) {
  const runs = [];
  for (let row = 0; row < data.nRows; row++) {
    const first = data.causal ? data.queries[row] + 1 : data.nColumns;
    const width = (data.nColumns - first) * frame.cell.width;
    if (width > 0) runs.push(`M${frame.left + first * frame.cell.width} ${frame.top + row * frame.cell.height}h${width}v${frame.cell.height}h${-width}z`);
  }
  return runs.length ? [svg("path", { d: runs.join(""), fill: `url(#${HATCH})`, class: "unreachable" })] : [];
}

function hiddenDiagonal(data, frame) {
  const covered = [];
  data.queries.forEach((position, row) => {
    const [x, y] = [frame.left + position * frame.cell.width, frame.top + row * frame.cell.height];
    covered.push(`M${x} ${y}h${frame.cell.width}v${frame.cell.height}h${-frame.cell.width}z`);
  });
  return svg("path", { d: covered.join(""), fill: "#ffffff", stroke: "#d3d8de", "stroke-width": 0.5 });
}

/** Everything of a map but its cells; drawn above them. */
function mapFurniture(view, frame) {
  const { data } = view;
  return [
    ...titles(view, frame), ...axisTitles(frame), ...rowLabels(data, frame), ...columnLabels(data, frame),
    ...unreachable(data, frame),
    ...(view.choice.hideDiagonal ? [hiddenDiagonal(data, frame)] : []),
    svg("rect", { x: frame.left, y: frame.top, width: frame.across, height: frame.down, fill: "none", stroke: "#8b95a1" }),
    ...stripsOf(view).flatMap((name, order) => strip(view, frame, name, order)),
    ...legend(view, frame),
  ];
}
