/* One map as SVG: title, axes, legend, bias column, cells that cannot be reached. The cells themselves come from cells.js. */

const UNITS = { none: "norm of the contribution", row: "share of the row's total, bias apart", column: "share of the column's total" };
const SCALE_ENDS = { "off-diagonal": "the largest off-diagonal", percentile: "the 99th percentile" };
const GREY = "#5b6672";

function componentOf(view) {
  return view.step.component;
}

function titleOf(view, map) {
  if (map.role === "difference") return `Difference: ${map.scope}`;
  if (map.role === "only") return map.scope;
  return `${map.role === "before" ? "Before" : "After"} ${componentOf(view)}: ${map.scope}`;
}

function subtitleOf(view, map) {
  if (view.run.signed) return "first result minus second";
  if (map.role === "difference") return `after minus before, of ${view.choice.normalise === "none" ? "norms" : "shares"}`;
  if (map.role === "only") return view.step.shows;
  return map.role === "before" ? "what goes into the step" : "what comes out of the step";
}

function unitOf(view, map) {
  if (view.run.signed) return "difference of norms";
  const unit = UNITS[view.choice.normalise];
  return map.role === "difference" ? `change of the ${unit}` : unit;
}

/** Whether some cells lie beyond the colour scale, as the diagonal mostly does. */
function isClipped(map) {
  return map.top > map.limit * 1.0001;
}

function stripNote(name, map) {
  const most = largest(Array.from(map[name], Math.abs));
  return most > 0 ? `${name} column: norm up to ${formatRough(most, false)}, own scale.` : `${name} column: zero.`;
}

/** What the reader must know about a map, wrapped to its width. */
function notesOf(view, place) {
  const notes = [unitOf(view, place.map)];
  const { map } = place;
  const asShare = view.choice.normalise !== "none";
  if (view.choice.hideDiagonal) notes.push("Diagonal hidden.");
  if (isClipped(map)) notes.push(`Scale ends at ${SCALE_ENDS[view.choice.range]}; cells reach ${formatRough(map.top, asShare)}.`);
  notes.push(...stripsOf(view).map((name) => stripNote(name, map)));
  if (map.completeness) notes.push(`Parts + bias = model's tensor to ${formatError(largest(Array.from(map.completeness)))}.`);
  return notes.flatMap((note) => wrapText(note, 11, place.width - place.left + PANEL_GAP - 8));
}

/** Positions that get a label, so that labels keep a readable distance. */
function labelled(count, size) {
  const every = Math.max(1, Math.ceil(LABEL.spacing / size));
  return Array.from({ length: Math.ceil(count / every) }, (_, i) => i * every);
}

function rowLabels(run, place) {
  const size = Math.min(LABEL.size, Math.max(LABEL.smallest, place.cell.height));
  return labelled(run.nRows, place.cell.height).flatMap((row) => {
    const y = place.top + (row + 0.5) * place.cell.height + size * 0.35;
    const position = run.queries[row];
    const index = text(position, place.left - 5, y, { "text-anchor": "end", "font-size": LABEL.index, fill: GREY });
    const token = fitText(run.tokens[position], size, LABEL.row);
    return place.fullLabels ? [index, text(token, place.left - indexWidth(run), y, { "text-anchor": "end", "font-size": size })] : [index];
  });
}

function upright(content, x, y, attributes) {
  return text(content, x, y, { transform: `rotate(-90 ${x} ${y})`, ...attributes });
}

function columnLabels(run, place) {
  const size = Math.min(LABEL.size, Math.max(LABEL.smallest, place.cell.width));
  return labelled(run.nColumns, place.cell.width).flatMap((column) => {
    const x = place.left + (column + 0.5) * place.cell.width + size * 0.35;
    return [
      upright(column, x, place.top - 5, { "font-size": LABEL.index, fill: GREY }),
      upright(fitText(run.tokens[column], size, LABEL.column), x, place.top - indexWidth(run), { "font-size": size }),
    ];
  });
}

function axisTitles(place) {
  const style = { "font-size": 11, fill: GREY };
  const middle = place.top + place.down / 2;
  const word = place.down < 150 ? "← destination" : "← destination position (query)";
  return [
    text("source token (key) →", place.left, TITLE_HEIGHT + 12, style),
    upright(word, 11, middle, { ...style, "text-anchor": "middle" }),
  ];
}

function titles(view, place) {
  return [
    text(fitText(titleOf(view, place.map), 14, place.width), 0, 14, { "font-size": 14, "font-weight": 600 }),
    text(fitText(subtitleOf(view, place.map), 12, place.width), 0, 31, { fill: GREY }),
  ];
}

/** A thin column beside the map, one number per row, on a scale of its own. */
function strip(view, place, name, order) {
  const x = place.left + place.across + STRIP.gap + order * (STRIP.width + STRIP.gap);
  const values = place.map[name];
  const limit = largest(Array.from(values, Math.abs));
  const scale = place.map.scale === "signed" ? "signed" : "bias";
  const cells = Array.from(values, (value, row) =>
    rectangle(x, place.top + row * place.cell.height, STRIP.width, place.cell.height, rgbToHex(colourOf(value, limit, scale))));
  return [
    ...cells,
    svg("rect", { x, y: place.top, width: STRIP.width, height: place.down, fill: "none", stroke: "#b4bcc6" }),
    upright(name, x + STRIP.width - 2, place.top - 5, { "font-size": 11, fill: GREY }),
  ];
}

function legend(view, place) {
  const { map, left } = place;
  const y = place.top + place.down + 12;
  const width = Math.min(190, place.width - left - 10);
  const from = map.scale === "signed" ? -map.limit : 0;
  const steps = 48;
  const bar = Array.from({ length: steps }, (_, i) => {
    const value = from + ((i + 0.5) / steps) * (map.limit - from);
    return rectangle(left + (i * width) / steps, y, width / steps + 0.5, 10, rgbToHex(colourOf(value, map.limit, map.scale)));
  });
  const frame = svg("rect", { x: left, y, width, height: 10, fill: "none", stroke: "#b4bcc6" });
  return [...bar, frame, ...legendTicks(view, place, y + 23, width, from), ...notes(place, y + 40)];
}

function legendTicks(view, place, y, width, from) {
  const { map, left } = place;
  const asShare = view.choice.normalise !== "none";
  const clipped = isClipped(map);
  const tick = (share, anchor, prefix = "") =>
    text(prefix + formatRough(from + share * (map.limit - from), asShare), left + share * width, y, { "font-size": 11, "text-anchor": anchor });
  return [tick(0, "start", clipped && from < 0 ? "≤ " : ""), tick(0.5, "middle"), tick(1, "end", clipped ? "≥ " : "")];
}

function notes(place, y) {
  return place.notes.map((line, index) => text(line, place.left, y + 15 * index, { "font-size": 11, fill: GREY }));
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
function unreachable(run, place) {
  const runs = [];
  for (let row = 0; row < run.nRows; row++) {
    const first = run.causal ? run.queries[row] + 1 : run.nColumns;
    const width = (run.nColumns - first) * place.cell.width;
    if (width > 0) runs.push(`M${place.left + first * place.cell.width} ${place.top + row * place.cell.height}h${width}v${place.cell.height}h${-width}z`);
  }
  return runs.length ? [svg("path", { d: runs.join(""), fill: `url(#${HATCH})`, class: "unreachable" })] : [];
}

function hiddenDiagonal(run, place) {
  const covered = [];
  run.queries.forEach((position, row) => {
    const [x, y] = [place.left + position * place.cell.width, place.top + row * place.cell.height];
    covered.push(`M${x} ${y}h${place.cell.width}v${place.cell.height}h${-place.cell.width}z`);
  });
  return svg("path", { d: covered.join(""), fill: "#ffffff", stroke: "#d3d8de", "stroke-width": 0.5 });
}

/** Everything of a map but its cells; drawn above them. */
function mapFurniture(view, place) {
  const { run } = view;
  return [
    ...titles(view, place), ...axisTitles(place), ...rowLabels(run, place), ...columnLabels(run, place),
    ...unreachable(run, place),
    ...(view.choice.hideDiagonal ? [hiddenDiagonal(run, place)] : []),
    svg("rect", { x: place.left, y: place.top, width: place.across, height: place.down, fill: "none", stroke: "#8b95a1" }),
    ...stripsOf(view).flatMap((name, order) => strip(view, place, name, order)),
    ...legend(view, place),
  ];
}
