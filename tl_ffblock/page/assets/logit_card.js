/* Why: the card of a layer and a token on the way to a target. */

const LOGIT_LINES = 6;

/** A name, a bar in the colour of the sign, a number. */
function logitLine(scene, name, share, most) {
  return element("tr", {}, [element("td", {}, [name]), element("td", {}, [sizeBar(Math.abs(share) / (most || 1), sizeInk(scene, { scale: "signed" }, share))]), element("td", { textContent: formatChange(share, false) })]);
}

function logitLines(scene, entries, named) {
  const most = Math.max(0, ...entries.map(({ share }) => Math.abs(share)));
  return element("table", { className: "profile" }, entries.map((entry) => logitLine(scene, named(entry), entry.share, most)));
}

function plainButton(children, change, go) {
  const button = element("button", { type: "button", className: "plain" }, children);
  button.addEventListener("click", () => go(change));
  return button;
}

/** What the chosen head, else the layer's largest, carries from token to token. */
function logitEdges(scene, block, go) {
  const { data, selection } = scene;
  const heads = logitHeads(block, selection.layer);
  const head = logitHead(block, selection) < 0 ? heads.length && heads[0].head : logitHead(block, selection);
  const edges = (block.edges[`${selection.layer},${head}`] || []).filter(([, , share]) => share !== 0);
  if (!edges.length) return [];
  const tokens = data.runs[selection.run].tokens;
  const edgeName = ({ query, key }) => plainButton([element("bdi", { textContent: tokens[key] }), ` (${key}) → `, element("bdi", { textContent: tokens[query] }), ` (${query})`], data.queries.includes(query) ? { to: query, from: key } : { from: key, read: "column" }, go);
  const entries = edges.map(([query, key, share]) => ({ query, key, share }));
  return [element("p", { className: "note", textContent: `Head ${head} carries most from → to:` }), logitLines(scene, entries, edgeName)];
}

/** Sections about the selected layer and token; none where the page has no target. */
function logitCard(scene, go) {
  const { data, selection } = scene;
  const block = chosenLogit(data, selection);
  if (!block) return [];
  const { layer } = selection;
  const labels = labelsOf(scene);
  const tokenOf = ({ column }) => plainButton([element("bdi", { textContent: labels[column] }), whichOf(scene, column)], logitTokenChange(scene, column), go);
  const headOf = ({ head }) => plainButton([`head ${head}`], { heads: String(head) }, go);
  const heads = logitHeads(block, layer).slice(0, LOGIT_LINES);
  return [element("section", { className: "card logit-card" }, [
    element("h3", {}, ["To ", element("bdi", { textContent: logitTarget(block) })]),
    element("p", { textContent: logitSentence(scene) }), element("p", { className: "note", textContent: logitLaw(block, layer) }),
    logitLines(scene, logitLargest(scene, layer, LOGIT_LINES), tokenOf),
    ...(heads.length ? [element("p", { className: "note", textContent: `What the heads of layer ${layer} write, over all positions:` }), logitLines(scene, heads, headOf)] : []),
    ...logitEdges(scene, block, go), element("p", { className: "note", textContent: block.certificate }),
  ])];
}
