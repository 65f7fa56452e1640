/* What is said about a map: title, unit, and what the reader must know. */

const UNITS = { none: "norm of the contribution", row: "share of the row's total, bias apart", column: "share of the column's total" };
const SCALE_ENDS = { "off-diagonal": "the largest off-diagonal", percentile: "the 99th percentile" };

function componentOf(view) {
  return view.step.component;
}

function titleOf(view, map) {
  if (map.role === "difference") return `Difference: ${map.scope}`;
  if (map.role === "only") return map.scope;
  return `${map.role === "before" ? "Before" : "After"} ${componentOf(view)}: ${map.scope}`;
}

function subtitleOf(view, map) {
  if (view.data.signed) return "first result minus second";
  if (map.role === "difference") return `after minus before, of ${view.choice.normalise === "none" ? "norms" : "shares"}`;
  if (map.role === "only") return view.step.shows;
  return map.role === "before" ? "what goes into the step" : "what comes out of the step";
}

function unitOf(view, map) {
  if (view.data.signed) return "difference of norms";
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

/** What the reader must know about a map, wrapped to `width`. */
function notesOf(view, map, width) {
  const remarks = [unitOf(view, map)];
  const asShare = view.choice.normalise !== "none";
  if (view.choice.hideDiagonal) remarks.push("Diagonal hidden.");
  if (isClipped(map)) remarks.push(`Scale ends at ${SCALE_ENDS[view.choice.range]}; cells reach ${formatRough(map.top, asShare)}.`);
  remarks.push(...stripsOf(view).map((name) => stripNote(name, map)));
  if (map.completeness) remarks.push(`Parts + bias = model's tensor to ${formatError(largest(Array.from(map.completeness)))}.`);
  return remarks.flatMap((remark) => wrapText(remark, 11, width));
}
