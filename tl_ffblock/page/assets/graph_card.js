/* The card of a node: its tokens, and the edges that sum to it. */

import { plainNumber, shareWord, signedNumber } from "./graph_words.js";
import { element } from "./svg.js";

function cardRow(cells, action) {
  const row = element("tr");
  cells.forEach((content, column) => {
    const cell = element("td");
    if (column === 0 && action) {
      const button = element("button", { type: "button", className: "plain", textContent: content });
      button.addEventListener("click", action);
      cell.append(button);
    } else cell.textContent = content;
    row.append(cell);
  });
  return row;
}

function nodeWords(node) {
  return node.label && node.label !== node.short ? `${node.short} ${node.label}` : node.short;
}

/** Edges of a node with the other end, largest share first. */
function neighbours(data, index, end, target) {
  const size = (edge) => Math.abs(edge.shares[target] ?? 0);
  return data.edges.filter((edge) => edge[end] === index).sort((a, b) => size(b) - size(a) || Math.abs(b.size) - Math.abs(a.size));
}

function edgeTable(scene, title, edges, end, go, sums) {
  if (!edges.length && !sums.length) return [];
  const { data, target } = scene;
  const share = (shares) => (data.targets.length ? [signedNumber(shares[target])] : []);
  const head = element("tr", {}, [element("th"), element("th", { textContent: "size" }), ...(data.targets.length ? [element("th", { textContent: shareWord(data) })] : [])]);
  const MOST = 60;
  const rows = edges.slice(0, MOST).map((edge) => cardRow([nodeWords(data.nodes[edge[end]]), `${edge.unit in data.widths ? "" : `${edge.unit} `}${plainNumber(edge.size)}`, ...share(edge.shares)], () => go(edge[end])));
  const more = edges.length > MOST ? [cardRow([`and ${edges.length - MOST} more`, "", ""])] : [];
  return [element("h3", { textContent: title }), element("table", {}, [head, ...rows, ...more, ...sums.map(({ name, size, shares }) => cardRow([name, size === null ? "" : plainNumber(size), ...share(shares)]))])];
}

function factsTable(scene, node) {
  const { data, target } = scene;
  const rows = node.facts.map(([name, value]) => cardRow([name, plainNumber(value)]));
  if (data.targets.length) {
    const { token, name, value } = data.targets[target];
    rows.push(cardRow([`${shareWord(data)} of ${name}`, `${signedNumber(node.shares[target])} of ${plainNumber(value)}`]));
    if (token && node.ranks[target]) rows.push(cardRow([`rank of ${token}`, String(node.ranks[target])]), cardRow([`probability of ${token}`, plainNumber(node.probabilities[target])]));
  }
  return element("table", {}, rows);
}

/** The card of a node, or what to do where none is chosen. */
export function nodeCard(scene, index, go) {
  const { data, target } = scene;
  if (index === null) return [element("p", { className: "note", textContent: "Choose a node to see its tokens, inputs and outputs." })];
  const node = data.nodes[index];
  const own = (node.own_shares[target] ?? 0) !== 0 ? [{ name: "own contribution", size: null, shares: node.own_shares }] : [];
  const rest = node.unseen ? [{ name: `not on this page${node.unseen > 1 ? ` (${node.unseen})` : ""}`, size: null, shares: node.rest_shares }] : [];
  const entering = neighbours(data, index, "target", target);
  const says = node.says.length ? [element("div", { className: "says" }, node.says.map((token) => element("bdi", { textContent: token })))] : [];
  return [
    element("h2", { textContent: node.name }), ...says, factsTable(scene, node),
    ...edgeTable(scene, "Inputs", entering, "source", go, [...own, ...rest]),
    ...edgeTable(scene, "Outputs", neighbours(data, index, "source", target), "target", go, []),
  ];
}
