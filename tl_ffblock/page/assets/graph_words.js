/* Numbers and sentences of a graph. No DOM. */

export function plainNumber(value) {
  if (value === null || value === undefined || Number.isNaN(value)) return "–";
  const size = Math.abs(value);
  if (size !== 0 && (size < 0.001 || size >= 100000)) return value.toExponential(1).replaceAll("-", "−");
  return String(Number(value.toPrecision(3))).replaceAll("-", "−");
}

export function signedNumber(value) {
  return value === null || value === undefined ? "–" : `${value > 0 ? "+" : ""}${plainNumber(value)}`;
}

function percent(part) {
  return part > 0.995 && part < 1 ? "99 %" : `${Math.round(100 * part)} %`;
}

/** What a number of a graph is called: a share of the target, its change by a removal, or an effect without a sign. */
export function shareWord({ signed = true, removal = false }) {
  if (removal) return "change";
  return signed ? "share" : "effect";
}

/** What the shown part does not change. */
export const HIDDEN_EDGES = "Sums in the cards include hidden edges.";

export function shownText(data, shown, order, amount) {
  const fixed = data.edges.length - order.length;
  const { carried } = shown;
  const by = data.targets.length ? "the absolute attributions that can be hidden" : "the sizes of all edges that can be hidden";
  const always = fixed ? `, and ${fixed} that are always shown` : "";
  const part = carried === null || amount === order.length ? "" : `: ${percent(carried)} of ${by}`;
  return [`${amount} of the page's ${order.length} edges${always}${part}.`, data.drawn].filter(Boolean).join(" ");
}

export function targetText(target) {
  return `${target.token ? `${target.name}: ${target.token}` : target.name} = ${plainNumber(target.value)}`;
}
