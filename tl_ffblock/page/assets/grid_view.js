/* View: every layer and head as a small map; a click opens it. */

const GRID = { label: 26, head: 18, gap: 3, largest: 110, smallest: 22 };

/** What its drawing is made from; the layer and head that are selected are marks. */
function gridFields({ data, selection }) {
  return ["run", "cells", "range", "root", "words", "hide", "block", ...(selection.block ? [] : ["scope"])];
}

function gridButton(scene, go, key, layer, size) {
  const { data } = scene;
  const name = `layer ${layer}, ${data.channels.get(key).name}`;
  const button = element("button", { type: "button", className: "grid-cell", title: name });
  button.setAttribute("aria-label", name);
  Object.assign(button.style, { width: `${size}px`, height: `${size}px` });
  button.addEventListener("click", () => go({ layer, scope: key, ref: "", view: "maps" }));
  return button;
}

function gridView(scene, go, width) {
  const { data, selection } = scene;
  const keys = headKeysOf(data, selection);
  const size = Math.max(GRID.smallest, Math.min(GRID.largest, Math.floor((width - GRID.label - 8) / keys.length) - GRID.gap));
  const places = data.layers.map((layer) => keys.map((key) => ({ layer, key, button: gridButton(scene, go, key, layer, size) })));
  const lines = places.map((line) => element("div", { className: "grid-line" }, [
    element("span", { className: "grid-layer", textContent: line[0].layer }), ...line.map(({ button }) => button),
  ]));
  const heads = element("div", { className: "grid-line" }, [
    element("span", { className: "grid-layer" }),
    ...keys.map((key) => { const node = element("span", { className: "grid-head", textContent: data.channels.get(key).name.replace(/^head /, "") }); node.style.width = `${size}px`; return node; }),
  ]);
  const note = "Rows: layers, columns: heads. Each small map has its own scale. A click opens it.";
  const cells = places.flat();
  inPieces(cells.map(({ layer, key, button }) => () => button.append(smallMap(scene, layer, key, size, size))), () => heads.isConnected);
  const update = (now) => {
    for (const { button, key, layer } of cells) button.classList.toggle("current", layer === now.selection.layer && key === now.selection.scope);
  };
  const nodes = [element("div", { className: "toggles" }, [blockChoice(scene, go)]), element("p", { className: "note", textContent: note }), element("div", { className: "grid" }, [heads, ...lines])];
  return { nodes, update };
}
