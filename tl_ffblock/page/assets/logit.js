/* A target shared out through the layers: its numbers as they are shown, and what is said of them. No DOM. */

function logitBlocks(data, run) {
  return Object.entries(data.runs[run].blocks).filter(([, block]) => block.kind === "logit");
}

/** The target that is shown: the one chosen, else the first; null where a page has none. */
function chosenLogit(data, selection) {
  const blocks = logitBlocks(data, selection.run);
  const [, block] = blocks.find(([name]) => name === selection.block) || blocks[0] || [null, null];
  return block;
}

/** One number a position as one a column: of words their sum; NaN where the token is hidden. */
function logitColumns({ axes, hidden }, shares) {
  return Float32Array.from(axes.columns, ({ members }, column) => (hidden.has(column) ? NaN : members.reduce((sum, position) => sum + shares[position], 0)));
}

/** Where the layers' numbers stand: rows are the input of each layer, and the end. */
function logitRowName(block, row) {
  return row < block.residual.length - 1 ? String(row) : "end";
}

/** What flows through each token at each layer's input and at the end, and where the colours end. */
function logitStream(scene) {
  const block = chosenLogit(scene.data, scene.selection);
  const rows = block.residual.map((shares) => logitColumns(scene, shares));
  const { nColumns } = scene.axes;
  const cells = new Float32Array(rows.length * nColumns);
  rows.forEach((row, index) => cells.set(row, index * nColumns));
  const own = rows.map(() => -1);
  return { rows, cells, limit: limitOf({ nRows: rows.length, nColumns, own }, cells, scene.selection.range), top: largest(cells) };
}

/** Sum of what biases (and edits) bring that enter at a layer. */
function logitBiasesAt(block, layer) {
  return block.biases.reduce((sum, [, at, share]) => (at === layer ? sum + share : sum), 0);
}

/** At a layer's input: what flows through all tokens, what enters from there on, and both. */
function logitSums(block, layer) {
  const flowing = block.residual[layer].reduce((sum, share) => sum + share, 0);
  const later = block.biases.reduce((sum, [, at, share]) => (at >= layer ? sum + share : sum), 0);
  return { flowing, later, both: flowing + later };
}

function logitUnit(block) {
  return block.unit ? ` ${block.unit}` : "";
}

function logitTarget(block) {
  return `${block.target} = ${formatNumber(block.value, 4)}${logitUnit(block)}`;
}

/** The value as the sum that it is. */
function logitEquation(block) {
  return `${formatNumber(block.value, 4)} = ${block.sums.map(([name, share]) => `${name} ${formatChange(share, false)}`).join(" · ")}`;
}

/** Whether nothing flows at a layer's input, because the target is read before. */
function logitIsBefore(block, layer) {
  return block.residual[layer].every((share) => share === 0) && block.value !== 0;
}

/** What flows through the token that is read, at the selected layer's input. */
function logitSentence(scene) {
  const { data, selection } = scene;
  const block = chosenLogit(data, selection);
  const column = ownColumn(scene);
  const token = tokenWords(scene, column);
  if (logitIsBefore(block, selection.layer)) return `At the input of layer ${selection.layer} nothing of it flows: the target is read before.`;
  const share = logitColumns(scene, block.residual[selection.layer])[column];
  if (Number.isNaN(share)) return `${token} is hidden.`;
  return `At the input of layer ${selection.layer}, ${formatChange(share, false)}${logitUnit(block)} of it flow through ${token}.`;
}

/** What the rows of complete rules sum to: the target, or what of it is linear in the logits. */
function logitWhole(block) {
  return block.sums.some(([name]) => name === "nonlinear") ? "its first-order form" : "it";
}

/** That a layer's numbers sum up. */
function logitLaw(block, layer) {
  const { flowing, later, both } = logitSums(block, layer);
  const sum = `At the input of layer ${layer}: through all tokens ${formatChange(flowing, false)}, from what enters later (biases) ${formatChange(later, false)}`;
  return block.complete ? `${sum}, together ${formatNumber(both, 4)}${logitWhole(block) === "it" ? "" : `, ${logitWhole(block)}`}.` : `${sum}; these rules do not sum to the target.`;
}

/** The tokens through which most flows at a layer's input, by size. */
function logitLargest(scene, layer, most) {
  const shares = logitColumns(scene, chosenLogit(scene.data, scene.selection).residual[layer]);
  return rankedProfile(shares, null, most).map(({ at }) => ({ column: at, share: shares[at] })).filter(({ share }) => share !== 0);
}

/** The head that is chosen, by number; -1 where it is none or several. */
function logitHead(block, selection) {
  const heads = selection.heads.split(".").filter(Boolean);
  return block.heads && heads.length === 1 && Number(heads[0]) < block.heads[0].length ? Number(heads[0]) : -1;
}

/* Arcs: how many, and the share of the stream's scale that they have at least. */
const ARC_MOST = 14;
const ARC_LEAST = 0.05;

/** The largest of what heads carry between two tokens that are shown, by size: layer, head, columns and positions from and to, share. */
function logitArcs({ axes, hidden }, block, limit) {
  const found = Object.entries(block.edges).flatMap(([place, edges]) => {
    const [layer, head] = place.split(",").map(Number);
    return edges.map(([query, key, share]) => ({ layer, head, query, key, share, from: axes.columnOf[key], to: axes.columnOf[query] }));
  });
  const across = found.filter(({ from, to, share }) => from !== to && !hidden.has(from) && !hidden.has(to) && Math.abs(share) >= ARC_LEAST * limit);
  return across.sort((a, b) => Math.abs(b.share) - Math.abs(a.share)).slice(0, ARC_MOST);
}

/** The heads of a layer by size: number and share. */
function logitHeads(block, layer) {
  if (!block.heads) return [];
  return block.heads[layer].map((share, head) => ({ head, share })).sort((a, b) => Math.abs(b.share) - Math.abs(a.share));
}

/** The map of the same target with a sign at the step that is selected, or at the nearest that there is; null without maps. */
function logitMapKey(data, selection) {
  const block = chosenLogit(data, selection);
  const maps = block && data.runs[selection.run].blocks[block.maps];
  if (!maps) return null;
  const { name } = data.channels.get(selection.scope);
  const channel = maps.channels.find((candidate) => candidate.name === name) || maps.channels[maps.channels.length - 1];
  return channelKey(data, block.maps, channel.name);
}

/** The change that shows that map beside the norms of the same step. */
function logitMapChange(data, selection) {
  const scope = logitMapKey(data, selection);
  const { name } = data.channels.get(scope);
  return { view: "maps", scope, ref: data.channels.has(name) && !data.block(name).signed ? name : "" };
}

const LOGIT_INKS = "Orange speaks for it, violet against.";

/** What the picture's colours mean, and how exact its numbers are. */
function logitNote(scene, perPixel) {
  const block = chosenLogit(scene.data, scene.selection);
  const { limit, top } = logitStream(scene);
  const ends = [`Colours end at ±${formatRough(limit, false)}${logitUnit(block)}${top > limit * 1.0001 ? ` (99th percentile; cells reach ${formatRough(top, false)})` : ""}.`];
  if (scene.selection.root) ends.push("Square-root scale.");
  if (block.heads) ends.push(`Heads, summed over positions, on a scale of their own: ±${formatRough(largest(block.heads.map(largest)), false)}; later layers read earlier ones, so that heads overlap and are no summands beside the tokens.`);
  if (scene.hidden.size) ends.push("Hidden tokens are left out of the picture, not of the sums.");
  return [LOGIT_INKS, ...ends, ...pixelRemark(perPixel), block.certificate].join(" ");
}

function logitWords(scene) {
  const { data, selection } = scene;
  const block = chosenLogit(data, selection);
  return {
    headline: `${logitTarget(block)}. ${logitSentence(scene)}`,
    meaning: `Columns are tokens, rows are layers: width and colour say how much of the answer flows there.${Object.keys(block.edges).length ? " Arcs are heads that carry it to another token." : ""}`,
    place: `layer ${selection.layer}`, shown: `shares of the ${block.target}, rules “${block.rules}”`, remark: `${logitEquation(block)}.`, note: logitNote(scene, 1), exact: false, method: block.method,
    file: [`layer${selection.layer}`, `to-${block.target}`.slice(0, 60)],
  };
}

/** Every number of the view: what tokens bring, what flows at each layer, heads, biases. */
function logitTable(scene) {
  const block = chosenLogit(scene.data, scene.selection);
  const labels = labelsOf(scene);
  const { rows } = logitStream(scene);
  const along = function* (part, layer, shares) {
    for (const [column, share] of shares.entries()) if (!Number.isNaN(share)) yield [part, layer, scene.axes.columns[column].position, labels[column], share];
  };
  const lines = function* () {
    yield* along("token", "", logitColumns(scene, block.entering));
    for (const [row, shares] of rows.entries()) yield* along("residual stream", logitRowName(block, row), shares);
    for (const [layer, shares] of (block.heads || []).entries()) for (const [head, share] of shares.entries()) yield ["head", String(layer), "", `head ${head}`, share];
    for (const [name, layer, share] of block.biases) yield ["bias", layer < 0 ? "" : logitRowName(block, layer), "", name, share];
  };
  return { head: ["part", "layer", "position", "name", "share"], lines, count: (rows.length + 1) * labels.length };
}
