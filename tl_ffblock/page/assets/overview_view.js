/* View: the overview. One row a layer: how much each step changed the mixing, tokens' streams, heads, the largest neurons; arcs are heads that carry across. */

const STREAM = { left: 34, gap: 26, smallest: 4, largest: 20, lowest: 330, framed: 420, around: 385, head: 20, enough: 330, legend: 190, banded: 7, least: 1.5 };
/* Columns of changes beside the streams, marks of neurons, and arcs of heads: sizes in pixels, shares of the stream's scale. */
const CHANGES = { width: 13, gap: 12 };
const NEURONS = { most: 6, each: 15, radius: 6, least: 0.03 };
const ARCS = { widest: 7, thinnest: 1, named: 3, sag: 0.16, apart: 9, reach: 12 };

function hasLogit(data) {
  return logitBlocks(data, 0).length > 0;
}

/** What its drawing is made from; layer, token and head are marks. */
function logitFields() {
  return ["run", "block", "words", "hide", "zoom", "range", "root"];
}

/** How high a layer is, so that all of them are seen at once. */
function layerHeight(scene, rows) {
  const tall = scene.room ? scene.room - 150 : FRAMED_PAGE ? STREAM.framed : Math.max(STREAM.lowest, window.innerHeight - STREAM.around);
  return Math.max(STREAM.smallest, Math.min(STREAM.largest, tall / rows));
}

/** The columns of changes: how much each step of a layer changed the ranking of token pairs, where the page has maps of that kind. */
function changeColumns(scene) {
  const block = Object.values(scene.data.runs[scene.selection.run].blocks).find(({ exact, tracks }) => exact && tracks && tracks.length);
  return block ? block.tracks[0].columns.map((column) => ({ ...column, values: block.tracks[0].values[column.channel] })) : [];
}

/** Where changes, streams, biases, heads and neurons stand in `width` pixels; heads and neurons below where there is no room beside. */
function logitPlace(scene, width) {
  const { data, selection, window: [, , first, last] } = scene;
  const block = chosenLogit(data, selection);
  const rows = block.residual.length;
  const height = layerHeight(scene, rows);
  const changes = changeColumns(scene);
  const heads = block.heads ? block.heads[0].length : 0;
  const biased = block.biases.some(([, , share]) => share !== 0);
  const left = STREAM.left + (changes.length ? changes.length * CHANGES.width + CHANGES.gap : 0);
  const beyond = left + (biased ? STRIP.gap + STRIP.width : 0) + 8;
  const across = heads ? Math.max(6, Math.min(STREAM.head, (width / 3) / heads)) : 0;
  const dots = block.neurons.length ? STREAM.gap + NEURONS.most * NEURONS.each : 0;
  const further = (heads ? STREAM.gap + across * heads : 0) + dots;
  const beside = further > 0 && width - beyond - further >= STREAM.enough;
  const room = width - beyond - (beside ? further : 0);
  const cell = { width: Math.min(CELL.largest, room / (last - first + 1)), height };
  const map = { labels: labelsOf(scene) };
  const top = 8 + labelWidth(scene, shownLabels(scene, map), LABEL.column, labelSize(cell.width));
  const frame = { left, top, cell, across: cell.width * (last - first + 1), down: height * rows, map };
  const bottom = top + frame.down + 34;
  const narrow = beside ? across : Math.min(STREAM.head, (width - STREAM.left - dots - 8) / Math.max(1, heads));
  const headFrame = {
    left: beside ? frame.across + beyond - 8 + STREAM.gap : STREAM.left, top: beside ? top : bottom + 36,
    cell: { width: narrow, height }, across: narrow * heads, down: height * (rows - 1),
  };
  const neuronFrame = dots ? { ...headFrame, left: headFrame.left + headFrame.across + (heads ? STREAM.gap : 0), across: NEURONS.most * NEURONS.each } : null;
  const lying = further > 0 && !beside;
  return { block, frame, heads, headFrame, neuronFrame, beside, changes, strip: biased ? frame.left + frame.across + STRIP.gap : null, height: lying ? headFrame.top + headFrame.down + 8 : bottom };
}

/** Whether tokens' streams are drawn as bands; columns too narrow for that are cells. */
function isBanded({ frame }) {
  return frame.cell.width >= STREAM.banded;
}

/** What is painted, and where. */
function logitPictures(scene, place) {
  const { block, frame, headFrame, heads, strip, changes } = place;
  const { cells, limit, rows } = logitStream(scene);
  const shown = { scale: "signed", root: scene.selection.root };
  const [, , first, last] = scene.window;
  const pictures = isBanded(place) ? [] : [
    { picture: { ...shown, cells, limit, nColumns: scene.axes.nColumns, window: [0, rows.length - 1, first, last] }, x: frame.left, y: frame.top, width: frame.across, height: frame.down },
  ];
  if (changes.length) {
    const flat = new Float32Array((rows.length - 1) * changes.length).fill(NaN);
    changes.forEach(({ values }, column) => scene.data.layers.forEach((layer, index) => { flat[layer * changes.length + column] = values[index] === null ? NaN : values[index]; }));
    const [wide, high] = [changes.length * CHANGES.width, frame.cell.height * (rows.length - 1)];
    pictures.push({ picture: { scale: "contribution", root: 1, cells: flat, limit: largest(flat), nColumns: changes.length, window: [0, rows.length - 2, 0, changes.length - 1] }, x: STREAM.left, y: frame.top, width: wide, height: high });
  }
  if (strip !== null) {
    const biases = Float32Array.from(rows, (_, row) => logitBiasesAt(block, row));
    pictures.push({ picture: { ...shown, cells: biases, limit, nColumns: 1, window: [0, rows.length - 1, 0, 0] }, x: strip, y: frame.top, width: STRIP.width, height: frame.down });
  }
  if (heads) {
    const flat = Float32Array.from(block.heads.flat());
    pictures.push({ picture: { ...shown, cells: flat, limit: largest(flat), nColumns: heads, window: [0, rows.length - 2, 0, heads - 1] }, x: headFrame.left, y: headFrame.top, width: headFrame.across, height: headFrame.down });
  }
  return pictures;
}

/** Tokens' streams: the wider and the stronger in colour, the more of the target flows there. */
function streamBands(scene, place) {
  if (!isBanded(place)) return [];
  const { frame } = place;
  const { rows, limit } = logitStream(scene);
  const [, , first, last] = scene.window;
  const bands = [];
  rows.forEach((shares, row) => {
    for (let column = first; column <= last; column++) {
      const share = shares[column];
      const part = limit ? placeOnScale(share, limit, scene.selection.root) : 0;
      const wide = part * (frame.cell.width - 1);
      if (!(wide >= STREAM.least)) continue;
      const x = frame.left + (column - first + 0.5) * frame.cell.width - wide / 2;
      const band = rectangle(x, frame.top + row * frame.cell.height, wide, frame.cell.height, shadeOf(scene.palette, share, limit, "signed", scene.selection.root).hex);
      band.dataset.share = `${row},${column}`;
      bands.push(band);
    }
  });
  return bands;
}

/** Arcs from stream to stream: what a head carries from one token to another; the largest have their names. `reach` are wide, and lie below the bands. */
function headArcs(scene, place) {
  const { frame, block } = place;
  const { palette } = scene;
  const { limit } = logitStream(scene);
  const [, , first, last] = scene.window;
  const middle = (column) => frame.left + (column - first + 0.5) * frame.cell.width;
  const named = [];
  const seen = new Map();
  const reach = [];
  const arcs = logitArcs(scene, block, limit).filter(({ from, to }) => Math.min(from, to) >= first && Math.max(from, to) <= last).map((arc, index) => {
    const ends = [arc.layer, arc.from, arc.to].join();
    const beside = seen.get(ends) ?? 0; // arcs of the same layer between the same tokens lie below each other
    seen.set(ends, beside + 1);
    const [x, end] = [middle(arc.from), middle(arc.to)];
    const y = frame.top + (arc.layer + 0.5) * frame.cell.height;
    const low = Math.min(y + frame.cell.height + 2 * Math.min(60, ARCS.sag * Math.abs(end - x)), 2 * (frame.top + frame.down) - y) + beside * ARCS.apart;
    const ink = palette[arc.share < 0 ? "loss" : "gain"];
    const wide = Math.max(ARCS.thinnest, ARCS.widest * Math.min(1, Math.abs(arc.share) / limit));
    const d = `M${x} ${y}Q${(x + end) / 2} ${low} ${end} ${y + frame.cell.height}`;
    const path = svg("path", { d, fill: "none", stroke: ink, "stroke-width": wide, "stroke-opacity": 0.8, "stroke-linecap": "round", class: "arc" });
    path.dataset.arc = String(index);
    reach.push(Object.assign(svg("path", { d, fill: "none", stroke: "transparent", "stroke-width": Math.max(ARCS.reach, wide) }), { arc }));
    if (named.length < ARCS.named) named.push(arcName(scene, arc, (x + end) / 2, (y + low + frame.cell.height / 2) / 2 + 4, ink, named));
    return Object.assign(path, { arc });
  });
  return { reach, drawn: [...arcs.reverse(), ...named.filter(Boolean)] };
}

/** The name of an arc at its middle, where no other's stands. */
function arcName(scene, arc, x, y, fill, others) {
  const { layer, head, share } = arc;
  const words = `L${layer}H${head} ${formatChange(share, false)}`;
  const wide = textWidth(words, 11) * BOLD;
  const taken = others.filter(Boolean).some(({ at }) => Math.abs(at.y - y) < 13 && Math.abs(at.x - x) < (at.wide + wide) / 2 + 4);
  if (taken) return null;
  const style = { "font-size": 11, "font-weight": 700, "text-anchor": "middle", fill };
  const parts = [rectangle(x - wide / 2 - 2, y - 10, wide + 4, 13, scene.palette.paper), text(words, x, y, style)];
  for (const part of parts) Object.assign(part, { arc });
  return Object.assign(svg("g", { class: "arc-name" }, parts), { at: { x, y, wide } });
}

/** The largest neurons of each layer as marks, on one scale for all. */
function neuronMarks(scene, { block, neuronFrame }) {
  if (!neuronFrame) return [];
  const { left, top, across, cell } = neuronFrame;
  const most = largest(block.neurons.flat().map(([, share]) => share));
  const radius = Math.min(NEURONS.radius, cell.height / 2);
  return block.neurons.flatMap((neurons, layer) => {
    const y = top + (layer + 0.5) * cell.height;
    const line = svg("line", { x1: left, x2: left + across, y1: y, y2: y, stroke: scene.palette.hatch });
    const marks = neurons.filter(([, share]) => Math.abs(share) >= NEURONS.least * most).slice(0, NEURONS.most).map(([neuron, share], index) => {
      const mark = svg("circle", { cx: left + (index + 0.5) * NEURONS.each, cy: y, r: Math.max(1, radius * Math.sqrt(Math.abs(share) / (most || 1))), fill: scene.palette[share < 0 ? "loss" : "gain"] });
      return Object.assign(mark, { neuron: { layer, neuron, share } });
    });
    return [line, ...marks];
  });
}

function logitLayerLabels(scene, place, left, top, rows) {
  const { palette, selection } = scene;
  const { height } = place.frame.cell;
  const every = Math.max(1, Math.ceil(11 / height));
  return Array.from({ length: rows }, (_, row) => row).flatMap((row) => {
    const chosen = row === selection.layer;
    const crowded = row % every || (!chosen && Math.abs(row - selection.layer) < every);
    if (crowded && !chosen) return [];
    const style = { "text-anchor": "end", "font-size": 11, fill: chosen ? palette.ink : palette.grey, "font-weight": chosen ? 700 : 400 };
    return [text(logitRowName(place.block, row), left - 5, top + (row + 0.5) * height + 4, style)];
  });
}

/** Axes, frames and names that stay while layer and token change. */
function logitSurroundings(scene, place) {
  const { palette } = scene;
  const { block, frame, headFrame, heads, strip, neuronFrame } = place;
  const grey = { "font-size": 11, fill: palette.grey };
  const outline = (x, y, width, height) => svg("rect", { x, y, width, height, fill: "none", stroke: palette.line });
  const arcs = headArcs(scene, place);
  const nodes = [
    text("layer", 0, frame.top - 5, grey), outline(frame.left, frame.top, frame.across, frame.down), ...streamLanes(scene, place), ...arcs.reach, ...streamBands(scene, place),
    ...logitLegend(scene, place), ...changeNames(scene, place),
  ];
  if (strip !== null) nodes.push(upright("biases", strip + STRIP.width - 2, frame.top - 5, grey), outline(strip, frame.top, STRIP.width, frame.down));
  if (heads) {
    const every = Math.max(1, Math.ceil(16 / headFrame.cell.width));
    nodes.push(text(`heads, ±${formatRough(largest(block.heads.map(largest)), false)}`, headFrame.left, headFrame.top - 20, grey), outline(headFrame.left, headFrame.top, headFrame.across, headFrame.down));
    for (let head = 0; head < heads; head += every) nodes.push(text(head, headFrame.left + (head + 0.5) * headFrame.cell.width, headFrame.top - 5, { ...grey, "text-anchor": "middle" }));
  }
  if (neuronFrame) nodes.push(text("largest neurons", neuronFrame.left, neuronFrame.top - 20, grey), ...neuronMarks(scene, place));
  return [...nodes, ...arcs.drawn];
}

/** What the columns of changes are, and their frame. */
function changeNames(scene, { frame, changes, block }) {
  if (!changes.length) return [];
  const outline = svg("rect", { x: STREAM.left, y: frame.top, width: changes.length * CHANGES.width, height: frame.cell.height * (block.residual.length - 1), fill: "none", stroke: scene.palette.line });
  const names = changes.map(({ label, words }, index) => {
    const name = upright(label, STREAM.left + (index + 0.5) * CHANGES.width + 4, frame.top - 5, { "font-size": 10, fill: scene.palette.grey });
    name.append(svg("title", {}, [words]));
    return name;
  });
  const room = Math.max(...changes.map(({ label }) => textWidth(label, 10))) + 12;
  return [outline, ...names, text("change", STREAM.left, Math.max(10, frame.top - room), { "font-size": 11, fill: scene.palette.grey })];
}

/** Thin lines along which streams run. */
function streamLanes(scene, place) {
  const { frame } = place;
  if (!isBanded(place)) return [];
  const [, , first, last] = scene.window;
  const middles = Array.from({ length: last - first + 1 }, (_, index) => frame.left + (index + 0.5) * frame.cell.width);
  return middles.map((x) => svg("line", { x1: x, x2: x, y1: frame.top, y2: frame.top + frame.down, stroke: scene.palette.hatch }));
}

function logitLegend(scene, { frame, block }) {
  const { limit, top } = logitStream(scene);
  const gradient = rampGradient(scene, { limit, scale: "signed" }, -limit);
  const [y, width] = [frame.top + frame.down + 8, Math.min(STREAM.legend, frame.across)];
  const [less, more] = top > limit * 1.0001 ? ["≤ ", "≥ "] : ["", ""];
  const tick = (content, share, anchor) => text(content, frame.left + share * width, y + 20, { "font-size": 11, "text-anchor": anchor, fill: scene.palette.ink });
  return [
    svg("defs", {}, [gradient]), svg("rect", { x: frame.left, y, width, height: 9, fill: `url(#${gradient.id})`, stroke: scene.palette.line, class: "legend" }),
    tick(`${less}−${formatRough(limit, false)}`, 0, "start"), tick("0", 0.5, "middle"), tick(`${more}+${formatRough(limit, false)}${logitUnit(block)}`, 1, width < 150 ? "middle" : "end"),
  ];
}

/** The selected layer, token and head; what is pointed at. */
function logitMarks(scene, place, target) {
  const { palette, selection } = scene;
  const { block, frame, headFrame, heads, neuronFrame } = place;
  const line = ({ left, top, across, cell }) => frameAround(left, top + selection.layer * cell.height, across, cell.height, palette.mark);
  const shapes = [line(frame), ...(neuronFrame ? [line(neuronFrame)] : []), ...columnMark(scene, frame, ownColumn(scene), palette.mark)];
  if (target && target.column !== undefined) shapes.push(...columnMark(scene, frame, target.column, palette.read));
  if (!heads) return shapes;
  const head = logitHead(block, selection);
  const chosen = head < 0 ? [] : [frameAround(headFrame.left + head * headFrame.cell.width, headFrame.top + selection.layer * headFrame.cell.height, headFrame.cell.width, headFrame.cell.height, palette.mark)];
  return [...shapes, line(headFrame), ...chosen];
}

/** What lies under a point: a row with a column of tokens, with a head, or with the biases. */
function logitUnder(place, scene, event, host) {
  const box = host.getBoundingClientRect();
  const [x, y] = [event.clientX - box.left, event.clientY - box.top];
  const inside = ({ left, top, across, down }) => x >= left && x < left + across && y >= top && y < top + down;
  const { frame, headFrame, heads, strip, changes, neuronFrame } = place;
  const { arc, neuron } = event.target;
  if (arc) return arc;
  if (neuron) return neuron;
  const row = ({ top, cell }) => Math.floor((y - top) / cell.height);
  if (inside(frame)) return { layer: row(frame), column: scene.window[2] + Math.floor((x - frame.left) / frame.cell.width) };
  if (strip !== null && inside({ ...frame, left: strip, across: STRIP.width })) return { layer: row(frame), biases: true };
  if (changes.length && inside({ ...frame, left: STREAM.left, across: changes.length * CHANGES.width, down: frame.down - frame.cell.height })) return { layer: row(frame), change: Math.floor((x - STREAM.left) / CHANGES.width) };
  if (neuronFrame && inside(neuronFrame)) return { layer: row(neuronFrame) };
  if (heads && inside(headFrame)) return { layer: row(headFrame), head: Math.floor((x - headFrame.left) / headFrame.cell.width) };
  return null;
}

/** The change of the selection that a token means: the one that is read. */
function logitTokenChange({ data, axes, selection }, column) {
  const position = axes.columns[column].position;
  const row = axes.rowOf(position);
  return selection.read === "row" && row >= 0 ? { to: axes.rows[row].position } : { from: position, read: "column" };
}

/** The change that a click means; a layer of which the page has no maps cannot be selected. */
function logitChange(scene, { layer, column, head, query, key }) {
  const change = scene.data.layers.includes(layer) ? { layer } : {};
  if (column !== undefined) Object.assign(change, logitTokenChange(scene, column));
  const again = query === undefined && layer === scene.selection.layer && scene.selection.heads === String(head); // a second click lets go
  if (head !== undefined) change.heads = again ? "" : String(head);
  if (query !== undefined && scene.data.queries.includes(query)) Object.assign(change, { to: query, from: key, read: "row" });
  return change;
}

function logitTip(scene, { block, changes }, { layer, column, head, query, key, neuron, share, change, biases }) {
  const input = head === undefined && change === undefined ? ", its input" : "";
  const at = tipLine("layer", layer === block.residual.length - 1 && head === undefined ? "end" : `${layer}${input}`);
  const number = (share) => element("div", { textContent: Number.isNaN(share) ? "hidden" : `${formatChange(share, false)}${logitUnit(block)}` });
  const token = (position) => tokenAt(scene, labelsOf(scene)[scene.axes.columnOf[position]], position);
  if (query !== undefined) return [tipLine("head", `L${layer}H${head}`), tipLine("from", token(key)), tipLine("to", token(query)), number(share)];
  if (neuron !== undefined) return [tipLine("neuron", `L${layer}N${neuron}`), number(share)];
  if (head !== undefined) return [tipLine("head", `L${layer}H${head}`), number(block.heads[layer][head])];
  if (change !== undefined) return [at, tipLine("", `${changes[change].words}: ${formatTrack(changes[change].values[scene.data.layers.indexOf(layer)] ?? null)}`)];
  if (column === undefined && !biases) return [at];
  if (column === undefined) return [at, ...block.biases.filter(([, from]) => from === layer).map(([name, , share]) => tipLine("bias", `${name} ${formatChange(share, false)}`))];
  return [at, tipLine("token", tokenAt(scene, labelsOf(scene)[column], scene.axes.columns[column].position)), number(logitColumns(scene, block.residual[layer])[column])];
}

/** Arrow keys: up and down another layer, left and right another token. */
function logitKey(scene, go, event) {
  const { data, selection, axes } = scene;
  const layer = data.layers.indexOf(selection.layer);
  const column = ownColumn(scene);
  const actions = {
    ArrowUp: () => layer > 0 && go({ layer: data.layers[layer - 1] }),
    ArrowDown: () => layer < data.layers.length - 1 && go({ layer: data.layers[layer + 1] }),
    ArrowLeft: () => column > 0 && go(logitTokenChange(scene, column - 1)),
    ArrowRight: () => column < axes.nColumns - 1 && go(logitTokenChange(scene, column + 1)),
    Home: () => go({ layer: data.layers[0] }),
    End: () => go({ layer: data.layers[data.layers.length - 1] }),
  };
  if (!(event.key in actions) || event.altKey) return;
  event.preventDefault();
  event.stopPropagation();
  actions[event.key]();
}

/** Pointer and keys; `current()` is the scene of now. */
function connectLogit(host, place, go, current) {
  host.addEventListener("pointermove", (event) => {
    const scene = current();
    const target = logitUnder(place, scene, event, host);
    const tip = byId("tooltip");
    tip.hidden = !target;
    scene.hover(target && target.column !== undefined ? { column: target.column } : null);
    if (target) { tip.replaceChildren(...logitTip(scene, place, target)); placeTip(tip, event.clientX, event.clientY); }
  });
  host.addEventListener("pointerleave", () => { byId("tooltip").hidden = true; current().hover(null); });
  host.addEventListener("click", (event) => {
    const target = logitUnder(place, current(), event, host);
    if (target) go(logitChange(current(), target));
  });
  host.addEventListener("keydown", (event) => logitKey(current(), go, event));
}

/** The text, each token on the ground of what it brings, the number below it. */
function logitTokens(scene, block, go, current) {
  const shares = logitColumns(scene, block.entering);
  const limit = largest(shares);
  const labels = labelsOf(scene);
  const chips = Array.from(shares, (share, column) => {
    const number = Number.isNaN(share) ? "–" : formatChange(share, false);
    const title = `${labels[column]} · position ${scene.axes.columns[column].position}: ${number}${logitUnit(block)}`;
    const chip = shareChip(labels[column], number, title, Number.isNaN(share) || limit === 0 ? null : shadeOf(scene.palette, share, limit, "signed", scene.selection.root));
    chip.classList.toggle("later", Number.isNaN(share));
    chip.addEventListener("click", () => go(logitTokenChange(current(), column)));
    return chip;
  });
  const host = element("ol", { className: "tokens shared" }, [element("li", { className: "note", textContent: "each token brings" }), ...chips]);
  host.setAttribute("aria-label", `what each token brings to the ${block.target}`);
  host.tabIndex = 0;
  host.classList.toggle("long", chips.length > 40);
  return { host, chips };
}

/** The list of targets, where there are several. */
function logitChoice(scene, go) {
  const { data, selection } = scene;
  const blocks = logitBlocks(data, selection.run);
  if (blocks.length < 2) return [];
  const select = element("select", { autocomplete: "off" }, blocks.map(([name, block]) => option(name, `${block.target} (${block.rules})`)));
  select.value = blocks.find(([, block]) => block === chosenLogit(data, selection))[0];
  select.setAttribute("aria-label", "target");
  select.addEventListener("change", () => go({ block: select.value }));
  return [element("div", { className: "toggles" }, [select])];
}

function logitView(scene, go, width) {
  let shown = scene;
  const current = () => shown;
  const place = logitPlace(scene, width);
  const { block } = place;
  const [labels, marks] = [svg("g"), svg("g")];
  const canvases = logitPictures(scene, place).map(({ picture, x, y, width: wide, height }) => placed(paint(picture, scene.palette, wide * scene.ratio, height * scene.ratio), x, y, wide, height));
  const columns = columnLabels(scene, place.frame);
  const drawing = svg("svg", { width, height: place.height, "aria-hidden": "true" }, [...logitSurroundings(scene, place), ...columns.nodes, labels, marks]);
  const host = element("div", { className: "logit", tabIndex: 0 }, [...canvases, drawing]);
  host.setAttribute("role", "application");
  connectLogit(host, place, go, current);
  const tokens = logitTokens(scene, block, go, current);
  const update = (now) => {
    shown = now;
    host.setAttribute("aria-label", `Layers by tokens, arrow keys choose. ${logitSentence(now)}`);
    labels.replaceChildren(...columns.mark(ownColumn(now)), ...logitLayers(now, place));
    tokens.chips.forEach((chip, column) => chip.setAttribute("aria-current", String(column === ownColumn(now))));
    const mark = (target) => marks.replaceChildren(...logitMarks(now, place, target));
    now.marked.push(mark);
    mark(null);
  };
  const note = logitNote(scene, 1 / (place.frame.cell.width * scene.ratio));
  const nodes = [
    ...logitChoice(scene, go), tokens.host, host,
    element("details", { className: "note" }, [element("summary", { textContent: "What is drawn" }), element("p", { textContent: `${logitEquation(block)}. ${note}` })]),
  ];
  return { nodes, update };
}

/** Numbers of layers, beside the stream and beside heads that stand below it. */
function logitLayers(scene, place) {
  const { block, frame, headFrame, heads, beside } = place;
  const below = (heads || place.neuronFrame) && !beside;
  return [...logitLayerLabels(scene, place, STREAM.left, frame.top, block.residual.length), ...(below ? logitLayerLabels(scene, place, headFrame.left, headFrame.top, block.residual.length - 1) : [])];
}

/** The layers for a file. */
function logitFigure(scene, width) {
  const place = logitPlace(scene, width);
  const columns = columnLabels(scene, place.frame);
  const nodes = [...logitSurroundings(scene, place), ...columns.nodes, ...columns.mark(ownColumn(scene)), ...logitLayers(scene, place), ...logitMarks(scene, place, null)];
  return { groups: [{ x: 0, y: 0, pictures: logitPictures(scene, place), nodes }], height: place.height };
}
