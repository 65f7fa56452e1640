/* Where the nodes of a layered graph stand, and which edges are shown. No DOM. */

export const CARD = { width: 76, widest: 130, height: 28, gap: 4, apart: 26, closest: 10, lane: 14, top: 34, left: 10, most: 190 };

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

/** Places of the shown nodes: columns side by side, lanes below each other, nodes of a column and lane stacked about its middle, but not far below its top. */
export function placesOf(data, shown, size) {
  const cells = new Map();
  const used = new Set();
  for (const index of shown.nodes) {
    const { column, lane } = data.nodes[index];
    used.add(column);
    const key = `${lane}/${column}`;
    if (!cells.has(key)) cells.set(key, []);
    cells.get(key).push(index);
  }
  const columns = [...used].sort((a, b) => a - b);
  const tallest = Array.from({ length: data.lanes }, () => 0);
  for (const [key, list] of cells) tallest[Number(key.split("/")[0])] = Math.max(tallest[Number(key.split("/")[0])], list.length);
  const step = size.height + size.gap;
  const tops = [];
  let y = size.top;
  for (const count of tallest) { tops.push(y); if (count) y += count * step + size.lane; }
  const places = new Map();
  for (const [key, list] of cells) {
    const [lane, column] = key.split("/").map(Number);
    const start = tops[lane] + Math.min(size.most, ((tallest[lane] - list.length) * step) / 2);
    list.sort((a, b) => a - b).forEach((index, row) => places.set(index, { x: size.left + columns.indexOf(column) * (size.width + size.apart), y: start + row * step }));
  }
  const width = 2 * size.left + columns.length * (size.width + size.apart) - size.apart;
  return { places, columns: columns.map((column, at) => ({ title: data.columns[column], x: size.left + at * (size.width + size.apart) })), width, height: y, size };
}

/* Letters of cards made smaller than this part cannot be read. */
const LEGIBLE = 0.7;

/** Places in so many pixels, and the part of its size that the picture has: columns closer and cards smaller where all then fit and can be read. */
export function fittedPlaces(data, shown, size, room) {
  const gaps = new Set([...shown.nodes].map((index) => data.nodes[index].column)).size - 1;
  const spare = (room - 2 * size.left - (gaps + 1) * size.width) / Math.max(1, gaps);
  const layout = placesOf(data, shown, { ...size, apart: Math.max(size.closest, Math.min(size.apart, spare)) });
  const part = Math.min(1, room / layout.width);
  return part < LEGIBLE ? { layout: placesOf(data, shown, size), part: 1 } : { layout, part };
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
