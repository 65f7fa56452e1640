/* Numbers by component: tokens in the colour of their contributions, maps of layers, tables. Of a continuation a row of the matrix opens the overview of its target. */

import { paint } from "./cells.js";
import { REMOVAL_ENDS, rampName, scaleOf, shadeOf } from "./colours.js";
import { formatChange, formatNumber, formatPercent } from "./numbers.js";
import { overviewOf } from "./logit.js";
import { overPicture } from "./picture.js";
import { MANY_TOKENS, largest, limitOf } from "./shares.js";
import { element, fitText, rectangle, shareChip, svg, text, textWidth } from "./svg.js";

const PIECE = { left: 46, top: 18, label: 11 };
/* Columns beyond which a map has a line of its own. */
const WIDE_MAP = 40;
/* Pixels between blocks that are beside each other, and those that each has at least. */
const COLUMN = { gap: 28, narrowest: 520 };

/** A value's colour on a scale that ends at `limit` on both sides. */
function inkOf(palette, value, limit) {
  return shadeOf(palette, value, limit, "signed");
}

/** A number of a map or a table: with its sign where numbers of both signs are there. */
function saidOf({ signed = true }, value) {
  return signed ? formatChange(value) : formatNumber(value);
}

/** Numbers as they were sent, with NaN for what is not there. */
function withGaps(numbers) {
  return numbers.map((number) => number ?? NaN);
}

/** Where the colours of rows of cells end: of many columns at the 99th percentile, since few cells hold nearly all of a long text's share. */
function endOf(values) {
  const [nRows, nColumns] = [values.length, values[0].length];
  const axes = { nRows, nColumns, own: Array(nRows).fill(-1) };
  return limitOf(axes, Float32Array.from(values.flat()), nColumns >= MANY_TOKENS ? "percentile" : "all");
}

/** By what a cell is: one end of colours for all maps of one quantity, so that equal numbers look alike. */
function limitsOf(maps) {
  return new Map(maps.map(({ note }) => [note, endOf(maps.filter((map) => map.note === note).flatMap(({ values }) => values))]));
}

/** The colours of a map or a text, from one sign to the other, of numbers that are not negative from zero; `most` is the largest size, where that is beyond its end. */
function scaleView(palette, limit, most = limit, scale = "signed") {
  const signed = scale !== "contribution";
  const canvas = element("canvas", { width: 121, height: 1 });
  const pen = canvas.getContext("2d");
  for (let x = 0; x < 121; x++) {
    pen.fillStyle = shadeOf(palette, signed ? (x - 60) / 60 : x / 120, 1, scale).hex;
    pen.fillRect(x, 0, 1, 1);
  }
  canvas.setAttribute("aria-hidden", "true");
  const beyond = most > limit * 1.0001 ? [element("span", { textContent: `(99th percentile; cells reach ${formatNumber(most)})` })] : [];
  const [low, high] = scale === "removal" ? REMOVAL_ENDS : ["", ""];
  const ends = signed ? [`${low} −${formatNumber(limit)}`, `+${formatNumber(limit)} ${high}`] : ["0", formatNumber(limit)];
  return element("div", { className: "share-scale" }, [ends[0].trim(), canvas, ends[1].trim(), ...beyond]);
}

/** The text, each token with its share. */
function tokensView(palette, tokens, shares) {
  const limit = largest(shares);
  const chips = tokens.map((token, position) => shareChip(token, formatChange(shares[position]), `position ${position}`, inkOf(palette, shares[position] || 0, limit)));
  return element("div", {}, [element("ol", { className: "tokens shared" }, chips), scaleView(palette, limit)]);
}

/** A map's cells, as pictures are painted from. */
function sharePicture(map, limit) {
  const { values } = map;
  const [rows, columns] = [values.length, values[0].length];
  return { cells: Float32Array.from(values.flat()), nColumns: columns, window: [0, rows - 1, 0, columns - 1], scale: scaleOf(map), limit, root: 0 };
}

/** Which of many labels have room: every first, second, fifth, tenth ... */
function everyOf(count, size) {
  return [1, 2, 5, 10, 20, 50, 100, 200, 500].find((step) => step * size >= PIECE.label + 2) || count;
}

/** A name in so many pixels; the position after it stays whole. */
function fitPlace(name, width) {
  const at = name.match(/@\d+$/)?.[0] ?? "";
  return fitText(name.slice(0, name.length - at.length), PIECE.label, width - textWidth(at, PIECE.label)) + at;
}

/** Where a map stands in `width` pixels: its cells beside the names of rows, above those of columns. */
function shareFrame(map, width) {
  const [rows, columns] = [map.rows.length, map.columns.length];
  const longest = Math.min(110, Math.max(...[`${map.row} ↓`, ...map.rows].map((name) => textWidth(name, PIECE.label))) + 8);
  const left = Math.max(PIECE.left, longest);
  const cell = Math.max(6, Math.min(34, (width - left - 8) / columns));
  const tall = map.picture ? cell * columns * map.aspect / rows : Math.max(5, Math.min(20, 460 / rows));
  const widest = Math.max(...map.columns.map((name) => textWidth(name, PIECE.label)));
  const lying = widest < cell - 2;
  const below = lying ? 20 : Math.min(90, widest) + 14;
  const across = left + Math.max(cell * columns, textWidth(`${map.column} →`, PIECE.label)) + 6;
  return { left, cell, tall, lying, below, across, wide: cell * columns, high: tall * rows, height: PIECE.top + tall * rows + below };
}

/** What stands around a map's cells: `names` of rows, and `nodes` of columns and the edge. */
function shareNames(palette, map, { left, cell, tall, lying, below, wide, high }) {
  const label = (content, attributes) => text(content, 0, 0, { "font-size": PIECE.label, fill: palette.grey, ...attributes });
  const nodes = [svg("rect", { x: left, y: PIECE.top, width: wide, height: high, fill: "none", stroke: palette.line })];
  const names = [];
  for (let r = 0; r < map.rows.length; r += everyOf(map.rows.length, tall)) {
    names.push(label(fitText(map.rows[r], PIECE.label, left - 8), { x: left - 5, y: PIECE.top + (r + 0.5) * tall + 4, "text-anchor": "end" }));
  }
  for (let c = 0; c < map.columns.length; c += everyOf(map.columns.length, cell)) {
    const [x, y] = [left + (c + 0.5) * cell + (lying ? 0 : 4), PIECE.top + high + (lying ? 14 : 6)];
    const turned = lying ? { "text-anchor": "middle" } : { transform: `rotate(-90 ${x} ${y})`, "text-anchor": "end" };
    nodes.push(label(lying ? map.columns[c] : fitPlace(map.columns[c], below - 12), { x, y, ...turned }));
  }
  names.push(label(`${map.row} ↓`, { x: left - 5, y: 11, "text-anchor": "end" }));
  nodes.push(label(`${map.column} →`, { x: left, y: 11 }));
  return { names, nodes };
}

/**
 * A map that says what is pointed at. `pick(row, column)` is called for the cell that is clicked; where there is none, cells are
 * said on pointing alone. Arrow keys move the cell.
 */
function shareMap(palette, map, limit, width, pick) {
  const [rows, columns] = [map.rows.length, map.columns.length];
  const frame = shareFrame(map, width);
  const { left, cell, tall, wide, high, height, across } = frame;
  const around = shareNames(palette, map, frame);
  const ring = svg("rect", { fill: "none", stroke: palette.mark, "stroke-width": 1.5, visibility: "hidden", width: cell, height: tall });
  const names = svg("g", { class: "share-names" }, [rectangle(0, 0, left - 1, height, palette.paper), ...around.names]);
  const image = map.picture || paint(sharePicture(map, limit), palette, columns, rows).toDataURL();
  const drawing = svg("svg", { width: across, height, tabindex: 0, role: "img" }, [
    svg("image", { href: image, x: left, y: PIECE.top, width: wide, height: high, preserveAspectRatio: "none" }), ...overPicture(palette, map, limit, frame, PIECE.top), ...around.nodes, ring, names,
  ]);
  drawing.setAttribute("aria-label", `${map.title}; arrow keys choose a cell`);
  const said = element("p", { className: "share-said", textContent: "Point at a cell, or use the arrow keys." });
  said.setAttribute("role", "status");
  let at = null;
  const say = (r, c) => {
    at = [r, c];
    for (const [name, value] of Object.entries({ x: left + c * cell, y: PIECE.top + r * tall, visibility: "visible" })) ring.setAttribute(name, value);
    said.replaceChildren(`${map.row} `, element("bdi", { textContent: map.rows[r] }), ` · ${map.column} `, element("bdi", { textContent: map.columns[c] }), `: ${saidOf(map, map.values[r][c])}`);
    for (const [name, share] of map.details[`${r},${c}`] || []) said.append(" · ", element("bdi", { textContent: name }), ` ${saidOf(map, share)}`);
  };
  const cellOf = (event) => {
    if (event.target.closest(".share-names")) return null;
    const box = drawing.getBoundingClientRect();
    const [c, r] = [Math.floor((event.clientX - box.left - left) / cell), Math.floor((event.clientY - box.top - PIECE.top) / tall)];
    return r >= 0 && c >= 0 && r < rows && c < columns ? [r, c] : null;
  };
  drawing.addEventListener("pointermove", (event) => { const place = cellOf(event); if (place) say(...place); });
  drawing.addEventListener("click", (event) => { const place = cellOf(event); if (place) { say(...place); if (pick) pick(...place); } });
  drawing.addEventListener("keydown", (event) => {
    const step = { ArrowUp: [-1, 0], ArrowDown: [1, 0], ArrowLeft: [0, -1], ArrowRight: [0, 1] }[event.key];
    if (event.key === "Enter" && at && pick) pick(...at);
    if (!step) return;
    event.preventDefault();
    const [r, c] = at || [rows - 1, 0];
    say(Math.min(rows - 1, Math.max(0, r + (at ? step[0] : 0))), Math.min(columns - 1, Math.max(0, c + (at ? step[1] : 0))));
  });
  const host = element("div", { className: "share-map" }, [drawing]);
  host.addEventListener("scroll", () => names.setAttribute("transform", `translate(${host.scrollLeft})`)); // names of rows stay in sight
  return element("div", {}, [host, said, scaleView(palette, limit, largest(map.values.map(largest)), scaleOf(map))]);
}

/** Names with their shares and bars of their sizes. */
function shareTable(palette, table) {
  const { title, note, entries } = table;
  const limit = largest(entries.map(([, share]) => share));
  const lines = entries.map(([name, share]) => {
    const bar = element("span", { className: "share-bar" });
    bar.style.width = `${limit ? Math.round(60 * Math.abs(share) / limit) : 0}px`;
    bar.style.background = palette[rampName(share, scaleOf(table))];
    return element("tr", {}, [element("td", {}, [element("bdi", { textContent: name })]), element("td", {}, [bar]), element("td", { textContent: saidOf(table, share) })]);
  });
  const said = [note, ...(table.removal ? [`Orange ${REMOVAL_ENDS[0]}, violet ${REMOVAL_ENDS[1]}.`] : [])].filter(Boolean).join(" ");
  const remark = said ? [element("p", { className: "note", textContent: said })] : [];
  return element("section", { className: "share-table" }, [element("h2", { textContent: title }), ...remark, element("table", {}, lines)]);
}

const CURVE = { widest: 900, high: 360, left: 44, top: 28, bottom: 40, gap: 60, right: 26 };

/** Where the points of a curve stand: fractions on a logarithmic axis, zero apart at its left. */
function curvePlaces({ x, y, low, high }, width) {
  const positive = x.filter((part) => part > 0);
  const [first, last] = [Math.log(Math.min(...positive)), Math.log(Math.max(...positive))];
  const left = CURVE.left + (positive.length < x.length ? CURVE.gap : 0);
  const across = (part) => (part > 0 ? left + ((Math.log(part) - first) / (last - first || 1)) * (width - CURVE.right - left) : CURVE.left + 10);
  const values = [0, 1, ...y, ...low, ...high].filter((value) => value !== null);
  const [least, most] = [Math.min(...values), Math.max(...values)];
  const down = (value) => CURVE.top + ((most - value) / (most - least || 1)) * (CURVE.high - CURVE.top - CURVE.bottom);
  return { across, down, least, most };
}

/** A curve over fractions with the area between it and 1; each point has its name and number. */
function curveView(palette, curve, width) {
  const { x, y, low, high, names, label, axis } = curve;
  const { across, down } = curvePlaces(curve, width);
  const points = x.map((part, index) => [across(part), down(y[index])]);
  const grey = { "font-size": 11, fill: palette.grey };
  const area = svg("path", { d: `M${points.join("L")}L${across(x[x.length - 1])} ${down(1)}L${across(x[0])} ${down(1)}Z`, fill: palette.gain, "fill-opacity": 0.15, class: "area" });
  const marks = points.flatMap(([px, py], index) => {
    const said = `${names[index]}: ${formatNumber(y[index])}${low[index] === null ? "" : `, 95 % interval ${formatNumber(low[index])} to ${formatNumber(high[index])}`}`;
    const whisker = low[index] === null ? [] : [svg("line", { x1: px, x2: px, y1: down(low[index]), y2: down(high[index]), stroke: palette.ink, class: "whisker" })];
    return [...whisker, svg("circle", { cx: px, cy: py, r: 4.5, fill: palette.contribution, class: "point" }, [svg("title", {}, [said])]), text(formatNumber(y[index]), px, py - 9, { "font-size": 11, "text-anchor": "middle", fill: palette.ink }), text(formatPercent(x[index], 2), px, CURVE.high - CURVE.bottom + 15, { ...grey, "text-anchor": "middle" })];
  });
  const lines = [0, 1].flatMap((value) => [svg("line", { x1: CURVE.left, x2: width - CURVE.right, y1: down(value), y2: down(value), stroke: palette.line }), text(value, CURVE.left - 6, down(value) + 4, { ...grey, "text-anchor": "end" })]);
  const drawing = svg("svg", { width, height: CURVE.high, role: "img" }, [area, ...lines, svg("path", { d: `M${points.join("L")}`, fill: "none", stroke: palette.contribution, "stroke-width": 2, class: "curve" }), ...marks, text(axis, width - CURVE.right, CURVE.high - 6, { ...grey, "text-anchor": "end" }), text(label, CURVE.left + 8, down(1) + 26, { "font-size": 12, "font-weight": 600, fill: palette.ink })]);
  drawing.setAttribute("aria-label", `${curve.title}: ${names.map((name, index) => `${name}: ${formatNumber(y[index])}`).join("; ")}`);
  return drawing;
}

function section(title, note, children, wide) {
  const parts = [element("h2", { textContent: title }), element("p", { className: "note", textContent: note }), ...children];
  return element("section", { className: wide ? "wide" : "" }, parts);
}

function sumsText(row) {
  const parts = row.sums.map(([name, share]) => `${name} ${formatChange(share)}`);
  return `${formatNumber(row.value, 4)} = ${parts.join(" · ")}`;
}

export function hasNumbers(data) {
  return numbersBlock(data, 0) !== undefined;
}

/** The numbers of a run, gaps as NaN; undefined where it has none. */
export function numbersBlock(data, run) {
  const block = Object.values(data.runs[run].blocks).find(({ kind }) => kind === "numbers");
  if (block && !block.read) {
    for (const row of block.rows) row.shares = withGaps(row.shares);
    for (const map of block.maps) map.values = map.values.map(withGaps);
    block.read = true;
  }
  return block;
}

/** Of several targets the matrix [target, source]. */
function matrixOf(data, { rows }) {
  return {
    title: "Every token of the continuation", note: "A row has the attributions of all earlier tokens; with biases they sum to the target's value. A click opens its overview.",
    row: "target", column: "source", rows: rows.map(({ name }) => name), columns: data.runs[0].tokens, values: rows.map(({ shares }) => shares), details: {},
  };
}

/** Token contributions to the target. */
function rowSection({ data, palette }, { rows: [row] }) {
  const note = "Signed, in the target's units: attribution of each token's embedding, with those of its position and type.";
  return section("Token contributions", note, [tokensView(palette, data.runs[0].tokens, row.shares), element("p", { className: "share-sums", textContent: sumsText(row) })], true);
}

export function numbersView(scene, go, width) {
  const { data, selection, palette } = scene;
  const block = numbersBlock(data, selection.run);
  const parts = [];
  if (block.rows.length > 1) {
    const matrix = matrixOf(data, block);
    const pick = (row) => { const change = overviewOf(data, data.words.length - block.rows.length + row); if (change) go({ ...change, view: "overview" }); };
    parts.push(section(matrix.title, matrix.note, [shareMap(palette, matrix, endOf(matrix.values), width, pick)], true));
  } else if (block.rows.length) parts.push(rowSection(scene, block));
  const narrow = block.maps.filter(({ columns }) => columns.length <= WIDE_MAP).length + block.tables.length;
  const across = Math.max(1, Math.min(narrow, Math.floor((width + COLUMN.gap) / (COLUMN.narrowest + COLUMN.gap))));
  const share = (width - COLUMN.gap * (across - 1)) / across;
  const limits = limitsOf(block.maps);
  for (const map of block.maps) parts.push(section(map.title, map.note, [shareMap(palette, map, limits.get(map.note), map.columns.length > WIDE_MAP ? width : share, null)], map.columns.length > WIDE_MAP));
  for (const table of block.tables) parts.push(shareTable(palette, table));
  for (const curve of block.curves || []) parts.push(section(curve.title, curve.note, [curveView(palette, curve, Math.min(width, CURVE.widest))], true));
  const host = element("div", { className: "number-blocks" }, parts);
  host.style.gridTemplateColumns = `repeat(${across}, minmax(0, 1fr))`;
  return [host];
}

export function numbersWords({ data, selection }) {
  const { heading, facts, maps } = numbersBlock(data, selection.run);
  const note = maps.some(({ removal }) => removal) ? `Orange ${REMOVAL_ENDS[0]}, violet ${REMOVAL_ENDS[1]}.` : "";
  return { headline: heading, meaning: "", place: "", shown: facts || data.heading, remark: "", note, exact: false, method: "", file: ["numbers"] };
}

/** All maps below each other, for a file; null where there are only tables. */
export function numbersFigure({ data, selection, palette }, width) {
  const block = numbersBlock(data, selection.run);
  if (block.curves) return { groups: block.curves.map((curve) => ({ x: 0, y: 0, pictures: [], nodes: [...curveView(palette, curve, width).childNodes] })), height: CURVE.high };
  const maps = [...(block.rows.length > 1 ? [matrixOf(data, block)] : []), ...block.maps];
  const limits = limitsOf(maps);
  let y = 0;
  const groups = maps.map((map) => {
    const frame = shareFrame(map, width);
    const { names, nodes } = shareNames(palette, map, frame);
    const pictures = [{ picture: sharePicture(map, limits.get(map.note)), x: frame.left, y: PIECE.top, width: frame.wide, height: frame.high }];
    const title = text(map.title, 0, -6, { "font-size": 12, "font-weight": 600, fill: palette.ink });
    const group = { x: 0, y: y + 22, pictures, nodes: [title, ...names, ...nodes] };
    y += frame.height + 34;
    return group;
  });
  return groups.length ? { groups, height: y } : null;
}

/** Every number: token contributions, cells of maps, lines of tables. */
export function tableOfNumbers({ data, selection }) {
  const block = numbersBlock(data, selection.run);
  const tokens = data.runs[selection.run].tokens;
  const lines = function* () {
    for (const { name, shares } of block.rows) for (const [position, share] of shares.entries()) yield ["token", name, tokens[position], share];
    for (const { title, rows, columns, values } of block.maps) for (const [r, row] of values.entries()) for (const [c, value] of row.entries()) yield [title, rows[r], columns[c], value];
    for (const { title, names, y } of block.curves || []) for (const [index, value] of y.entries()) yield [title, names[index], "", value];
    for (const { title, entries } of block.tables) for (const [name, share] of entries) yield [title, name, "", share];
  };
  const count = block.maps.reduce((sum, { values }) => sum + values.length * values[0].length, block.rows.length * tokens.length);
  return { head: ["part", "row", "column", "value"], lines, count };
}
