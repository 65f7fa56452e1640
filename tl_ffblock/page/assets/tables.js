/* The page's numbers: named blocks of maps by run, unpacked when asked for. No DOM. */

/** The key of a channel among all of a page: that of the first block by its name alone. */
function channelKey(data, block, channel) {
  return block === Object.keys(data.runs[0].blocks)[0] ? channel : `${block}: ${channel}`;
}

/** Every map that can be chosen, by key, over all runs. */
function channelsOf(data) {
  const channels = new Map();
  for (const [name, block] of Object.entries(data.runs[0].blocks)) {
    if (block.kind !== "maps") continue;
    block.channels.forEach((channel, index) => {
      const key = channelKey(data, name, channel.name);
      channels.set(key, { ...channel, key, index, blockName: name, before: channel.before && channelKey(data, name, channel.before) });
    });
  }
  return channels;
}

/** Blocks of a kind and axis, with their names. */
function blocksOf(data, axis) {
  return Object.entries(data.runs[0].blocks).filter(([, block]) => block.kind === "maps" && (!axis || block.axis === axis));
}

/** Whether the page has maps of tokens; one without has an overview, or numbers alone. */
function hasMaps(data) {
  return data.channels.size > 0;
}

/** Cells in their places; NaN where a causal model cannot reach. */
function spread(data, numbers) {
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
function latest() {
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
 */
function openData(payload) {
  const data = { ...payload, latestAxes: latest(), latestMaps: latest() };
  data.channels = channelsOf(data);
  const coming = new Map();
  const unpacked = new Map();
  const numbers = recent(KEPT_NUMBERS);
  const placeOf = (run, key, name) => [run, key, name].join("\n");
  const tableOf = (run, key, name) => {
    const channel = data.channels.get(key);
    const block = data.runs[run].blocks[channel.blockName];
    return name === "values" ? block.values[channel.name] : block.columns[name] && block.columns[name][channel.name];
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
  data.load = (run, key) => {
    const block = data.runs[run].blocks[data.channels.get(key).blockName];
    return Promise.all(["values", ...Object.keys(block.columns)].map((name) => unpack(run, key, name)));
  };
  const opened = new Map();
  data.open = async (table) => { if (!opened.has(table)) opened.set(table, await inflate(table.packed)); };
  data.numbersAt = (table, index) => numbersOf(codesOf(opened.get(table), table, index, null), table, index);
  data.loaded = (run, key) => unpacked.has(placeOf(run, key, "values"));
  data.matrix = (run, key, layer) => read(run, key, "values", layer);
  data.column = (run, key, name, layer) => (tableOf(run, key, name) ? read(run, key, name, layer) : null);
  data.block = (key) => data.runs[0].blocks[data.channels.get(key).blockName];
  return data;
}
