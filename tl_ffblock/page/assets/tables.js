/* The page's numbers: named blocks of maps by run, unpacked when asked for. No DOM. */

import { codesOf, inflate, numbersOf } from "./numbers.js";

/** The key of a channel among all of a page: that of the first block by its name alone. */
export function channelKey(data, block, channel) {
  return block === Object.keys(data.runs[0].blocks)[0] ? channel : `${block}: ${channel}`;
}

/** Every map that can be chosen, by key, over all runs. */
function channelsOf(data) {
  const channels = new Map();
  for (const [name, block] of Object.entries(data.runs[0].blocks)) {
    if (block.kind !== "maps") continue;
    block.channels.forEach((channel, index) => {
      const key = channelKey(data, name, channel.name);
      channels.set(key, { label: channel.name, ...channel, key, index, blockName: name, before: channel.before && channelKey(data, name, channel.before) });
    });
  }
  return channels;
}

/** Blocks of a kind and axis, with their names. */
export function blocksOf(data, axis) {
  return Object.entries(data.runs[0].blocks).filter(([, block]) => block.kind === "maps" && (!axis || block.axis === axis));
}

/** Blocks of what a target changes by where a component is replaced or removed. */
export function effectsOf(data) {
  return Object.values(data.runs[0].blocks).filter(({ kind }) => kind === "effects");
}

/** A number of such a block: of a component at its layer, head and position, as far as it has these; NaN where it was not measured. */
export function effectAt(block, kind, ...place) {
  const table = block.tables[kind];
  if (!table) return NaN;
  let values = table.values;
  for (const [axis, numbers] of table.axes.entries()) {
    values = values[numbers.indexOf(place[axis])];
    if (values === undefined || values === null) return NaN;
  }
  return values;
}

/** The runs that are the ends of the first one's interval, where the page is of an average. */
export function intervalRuns(data) {
  return data.runs.map(({ name }) => name).join() === "mean,low,high" ? [1, 2] : [];
}

/** Low and high ends of a layer's cells, where the page is of an average and they are unpacked. */
export function intervalOf(data, run, key, layer) {
  const runs = run === 0 ? intervalRuns(data) : [];
  return runs.length && runs.every((end) => data.loaded(end, key)) ? runs.map((end) => data.matrix(end, key, layer)) : null;
}

/** Whether the page has maps of tokens; one without has an overview, or numbers alone. */
export function hasMaps(data) {
  return data.channels.size > 0;
}

/** Cells in their places; NaN where a causal model cannot reach. */
export function spread(data, numbers) {
  const across = data.words.length;
  const cells = new Float32Array(data.queries.length * across).fill(NaN);
  let next = 0;
  data.queries.forEach((position, row) => {
    const reached = data.causal ? position + 1 : across;
    cells.set(numbers.subarray(next, next + reached), row * across);
    next += reached;
  });
  return cells;
}

/** Keeps what was read last, `most` numbers in all: `(key, make)` makes what is not there. */
function recent(most) {
  const kept = new Map();
  let total = 0;
  return (key, make) => {
    const known = kept.get(key);
    const numbers = known || make();
    if (known) kept.delete(key);
    else total += numbers.length;
    kept.set(key, numbers);
    for (const [oldest, { length }] of kept) {
      if (total <= most || oldest === key) break;
      kept.delete(oldest);
      total -= length;
    }
    return numbers;
  };
}

/** Keeps what was made last: `(key, make)` makes it anew for another key. */
export function latest() {
  let [known, value] = [null, null];
  return (key, make) => {
    if (key !== known) [known, value] = [key, make()];
    return value;
  };
}

const KEPT_NUMBERS = 2 ** 24;

/**
 * Payload -> data with maps by (run, channel, layer); `load` unpacks a channel, `matrix` and `column` read it;
 * `open` unpacks a table of another block, `numbersAt` reads a layer of it.
 * @param {import("./data").Payload} payload
 */
export function openData(payload) {
  const data = { ...payload, latestAxes: latest(), latestMaps: latest(), channels: channelsOf(payload) };
  const coming = new Map();
  const unpacked = new Map();
  const numbers = recent(KEPT_NUMBERS);
  const placeOf = (run, key, name) => [run, key, name].join("\n");
  const tableOf = (run, key, name) => {
    const channel = data.channels.get(key);
    const block = data.runs[run].blocks[channel.blockName];
    const { same = channel.blockName } = block.values[channel.name];
    return name === "values" ? data.runs[run].blocks[same].values[channel.name] : block.columns[name] && block.columns[name][channel.name];
  };
  const referenceOf = (key, packed) => packed.reference && channelKey(data, data.channels.get(key).blockName, packed.reference);
  const decode = async (run, key, name) => {
    const packed = tableOf(run, key, name);
    const reference = referenceOf(key, packed);
    const [bytes] = await Promise.all([inflate(packed.packed), reference && unpack(run, reference, name)]);
    unpacked.set(placeOf(run, key, name), bytes);
  };
  const unpack = (run, key, name) => {
    const place = placeOf(run, key, name);
    if (!coming.has(place)) coming.set(place, decode(run, key, name));
    return coming.get(place);
  };
  const codesAt = (run, key, name, index) => {
    const packed = tableOf(run, key, name);
    const reference = referenceOf(key, packed);
    return codesOf(unpacked.get(placeOf(run, key, name)), packed, index, reference ? codesAt(run, reference, name, index) : null);
  };
  const read = (run, key, name, layer) => {
    const index = data.layers.indexOf(layer);
    return numbers([placeOf(run, key, name), index].join("\n"), () => {
      const line = numbersOf(codesAt(run, key, name, index), tableOf(run, key, name), index);
      return name === "values" ? spread(data, line) : line;
    });
  };
  const load = (run, key) => {
    const block = data.runs[run].blocks[data.channels.get(key).blockName];
    return Promise.all(["values", ...Object.keys(block.columns)].map((name) => unpack(run, key, name)));
  };
  const opened = new Map();
  const open = async (table) => { if (!opened.has(table)) opened.set(table, await inflate(table.packed)); };
  const numbersAt = (table, index) => numbersOf(codesOf(opened.get(table), table, index, null), table, index);
  const loaded = (run, key) => unpacked.has(placeOf(run, key, "values"));
  const matrix = (run, key, layer) => read(run, key, "values", layer);
  const column = (run, key, name, layer) => (tableOf(run, key, name) ? read(run, key, name, layer) : null);
  const block = (key) => data.runs[0].blocks[data.channels.get(key).blockName];
  return Object.assign(data, { load, open, numbersAt, loaded, matrix, column, block });
}

/** @typedef {ReturnType<typeof openData>} Data */
