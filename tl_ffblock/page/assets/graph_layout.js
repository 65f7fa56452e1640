/* Where the nodes of a layered graph stand, and which edges are shown. No DOM. */

export const CARD = { width: 76, widest: 130, height: 28, gap: 4, apart: 22, closest: 9, folded: 20, lane: 18, edge: 10 };

/* Room for the names of layers at the left and of tokens above the picture. */
export const MARGIN = { left: 108, top: 76, bare: 10 };

/** Rows so far apart that all of them fit in so many pixels, as long as they are apart at all. */
export function sizeIn(data, shown, size, room) {
  const rows = new Set([...shown.nodes].map((index) => data.nodes[index].column)).size;
  const spare = (room - 2 * size.edge - rows * size.height) / Math.max(1, rows - 1);
  const closest = [...shown.edges].some((index) => data.edges[index].span) ? size.folded : size.closest; // a folded stretch has its layers written on it
  return { ...size, apart: Math.max(closest, Math.min(size.apart, spare)) };
}

/** Edges that the slider can hide, the weightiest first, for a target; without targets by size. */
export function ranked(data, target) {
  const weight = (edge) => (data.targets.length ? Math.abs(edge.weights[target] ?? 0) : edge.unit in data.widths ? edge.size : 0);
  return data.edges.map((edge, index) => ({ index, weight: weight(edge) })).filter(({ index }) => !data.edges[index].always).sort((a, b) => b.weight - a.weight || a.index - b.index);
}

/** What is shown at a position of the slider: edges and nodes by number, and in words what is not. */
export function shownAt(data, target, order, amount) {
  const edges = new Set(data.edges.flatMap((edge, index) => (edge.always ? [index] : [])));
  for (const { index } of order.slice(0, amount)) edges.add(index);
  const nodes = new Set();
  for (const index of edges) nodes.add(data.edges[index].source).add(data.edges[index].target);
  const sum = (list) => list.reduce((total, { weight }) => total + weight, 0);
  const all = sum(order);
  return { edges, nodes, carried: all ? sum(order.slice(0, amount)) / all : null };
}

/** Places of the shown nodes: layers below each other, lanes side by side; nodes of a layer and lane stand next to each other about its middle. */
export function placesOf(data, shown, size) {
  const cells = new Map();
  for (const index of shown.nodes) {
    const { column, lane } = data.nodes[index];
    const key = `${lane}/${column}`;
    cells.set(key, [...(cells.get(key) || []), index]);
  }
  const columns = [...new Set([...shown.nodes].map((index) => data.nodes[index].column))].sort((a, b) => a - b);
  const most = Array.from({ length: data.lanes }, () => 0);
  for (const [key, list] of cells) most[Number(key.split("/")[0])] = Math.max(most[Number(key.split("/")[0])], list.length);
  const [across, down] = [size.width + size.gap, size.height + size.apart];
  const lanes = [];
  let x = size.edge;
  most.forEach((count, lane) => {
    const width = count * across - size.gap;
    if (count) lanes.push({ lane, x, width });
    x += count ? width + size.lane : 0;
  });
  const places = new Map();
  for (const [key, list] of cells) {
    const [lane, column] = key.split("/").map(Number);
    const place = lanes.find((candidate) => candidate.lane === lane);
    const start = place.x + (place.width - list.length * across + size.gap) / 2;
    list.sort((a, b) => a - b).forEach((index, at) => places.set(index, { x: start + at * across, y: size.edge + columns.indexOf(column) * down }));
  }
  const rows = columns.map((column, at) => ({ title: data.columns[column].replace("\n", " "), y: size.edge + at * down }));
  return { places, rows, lanes, width: Math.max(x - size.lane, 0) + size.edge, height: columns.length * down - size.apart + 2 * size.edge, size };
}

/* How much larger than its own size a picture can be made. */
const NEAREST = 2;

/* Part of their size at which words can still be read: then a picture is scaled alike across and down. */
export const LEGIBLE = 0.62;

/** How much a picture is scaled across and down in a frame: at zoom 0 the whole of it fits, at 1 it has its own size. */
export function scaleAt({ width, height }, frame, zoom) {
  const parts = [frame.width / width, frame.height / height].map((part) => Math.min(1, part));
  const least = Math.min(...parts);
  const fit = least < LEGIBLE ? parts : [least, least];
  const nearer = fit.every((part) => part === 1) ? zoom : zoom - 1;
  const [across, down] = fit.map((part) => part ** (1 - Math.min(1, zoom)) * NEAREST ** Math.max(0, nearer));
  return { across, down };
}

/** Where the picture lies in its frame: never so far aside that the frame is emptier than it has to be. */
export function keptInside({ width, height }, frame, { across, down, left, top }) {
  const kept = (offset, length, room) => (length <= room ? (room - length) / 2 : Math.min(0, Math.max(room - length, offset)));
  return { across, down, left: kept(left, width * across, frame.width), top: height * down <= frame.height ? 0 : kept(top, height * down, frame.height) };
}

/** The largest size of each unit that is drawn as a width. */
export function largestSizes(data) {
  const sizes = {};
  for (const { unit, size } of data.edges) if (unit in data.widths) sizes[unit] = Math.max(sizes[unit] || 0, Math.abs(size));
  return sizes;
}

/** Pixels: the square root of the size, so that small ones are seen. */
export function widthOf(edge, sizes) {
  return sizes[edge.unit] ? 0.8 + 9 * Math.sqrt(Math.abs(edge.size) / sizes[edge.unit]) : 1.1;
}

/** Where colours are full: the 98th percentile of what can be hidden, or the largest of all. */
export function shareLimit(data, target) {
  const sizes = (edges) => edges.map((edge) => Math.abs(edge.shares[target] ?? 0)).filter((share) => share > 0).sort((a, b) => a - b);
  const held = sizes(data.edges.filter((edge) => !edge.always));
  const list = held.length ? held : sizes(data.edges);
  return list.length ? list[Math.min(list.length - 1, Math.floor(0.98 * list.length))] : 1;
}
