/* The whole graph, small, above a picture that is wider than its place: where one is, and a click elsewhere goes there. */

import { edgeInk, nodeInk } from "./graph_view.js";
import { rectangle, svg } from "./svg.js";

/* Pixels that it is high at least, so that rows stay apart, and at most. */
const OVERVIEW = { least: 48, most: 120 };

/** Cards and edges in the width of a place, and a frame for what is seen. */
export function overviewOf(scene, width) {
  const { layout, shown, palette, data } = scene;
  const { size, places } = layout;
  const middle = (index) => [places.get(index).x + size.width / 2, places.get(index).y + size.height / 2];
  const edges = [...shown.edges].map((index) => {
    const edge = data.edges[index];
    const [[x1, y1], [x2, y2]] = [middle(edge.source), middle(edge.target)];
    return svg("line", { x1, y1, x2, y2, stroke: edgeInk(scene, edge), "vector-effect": "non-scaling-stroke" });
  });
  const cards = [...shown.nodes].map((index) => rectangle(places.get(index).x, places.get(index).y, size.width, size.height, nodeInk(scene, data.nodes[index])));
  const height = Math.max(OVERVIEW.least, Math.min(OVERVIEW.most, (layout.height * width) / layout.width));
  const frame = svg("rect", { class: "graph-window", fill: palette.ink, "fill-opacity": 0.08, stroke: palette.ink, "vector-effect": "non-scaling-stroke" });
  return svg("svg", { width, height, viewBox: `0 0 ${layout.width} ${layout.height}`, preserveAspectRatio: "none" }, [rectangle(0, 0, layout.width, layout.height, palette.paper), ...edges, ...cards, frame]);
}

/** Puts the frame about what of the picture is seen. */
export function frameSeen(overview, host, layout) {
  const seen = { x: host.scrollLeft, y: host.scrollTop, width: Math.min(host.clientWidth, layout.width), height: Math.min(host.clientHeight, layout.height) };
  for (const [name, value] of Object.entries(seen)) overview.querySelector(".graph-window").setAttribute(name, value);
}

/** Centres the picture on the place under a pointer on the overview. */
export function goFrom(overview, host, layout, event) {
  const box = overview.getBoundingClientRect();
  host.scrollLeft = ((event.clientX - box.left) / box.width) * layout.width - host.clientWidth / 2;
  host.scrollTop = ((event.clientY - box.top) / box.height) * layout.height - host.clientHeight / 2;
}
