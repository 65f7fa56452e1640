/* View: every layer and head as a small map; a click opens it. */

const GRID = { label: 26, head: 18, gap: 3, largest: 110, smallest: 22 };

function gridCell(scene, key, layer, size) {
  const { data, selection } = scene;
  const picture = sceneOf(data, { ...selection, layer, scope: key, ref: "", refRun: selection.run, zoom: "", cells: data.block(key).signed ? "none" : selection.cells });
  Object.assign(picture, { palette: scene.palette, ratio: scene.ratio });
  return paintCells(picture, picture.maps[0], picture.window, size * scene.ratio, size * scene.ratio);
}

function gridButton(scene, go, key, layer, size) {
  const { data, selection } = scene;
  const name = `layer ${layer}, ${data.channels.get(key).name}`;
  const button = element("button", { type: "button", className: "grid-cell", title: name });
  button.setAttribute("aria-label", name);
  Object.assign(button.style, { width: `${size}px`, height: `${size}px` });
  button.classList.toggle("current", layer === selection.layer && key === selection.scope);
  button.addEventListener("click", () => go({ layer, scope: key, ref: "", view: "maps" }));
  return button;
}

/** Paints the cells a few at a time, so that nothing waits for them; stops when the view is replaced. */
function paintGrid(scene, places, size) {
  const step = () => {
    const until = performance.now() + 14;
    while (places.length && performance.now() < until) {
      const [button, key, layer] = places.shift();
      button.append(gridCell(scene, key, layer, size));
    }
    if (places.length && places[0][0].isConnected) setTimeout(step);
  };
  setTimeout(step);
}

function gridView(scene, go, width) {
  const { data, selection } = scene;
  const keys = headKeysOf(data, selection);
  const size = Math.max(GRID.smallest, Math.min(GRID.largest, Math.floor((width - GRID.label - 8) / keys.length) - GRID.gap));
  const places = [];
  const lines = data.layers.map((layer) => element("div", { className: "grid-line" }, [
    element("span", { className: "grid-layer", textContent: layer }),
    ...keys.map((key) => { const button = gridButton(scene, go, key, layer, size); places.push([button, key, layer]); return button; }),
  ]));
  const heads = element("div", { className: "grid-line" }, [
    element("span", { className: "grid-layer" }),
    ...keys.map((key) => { const node = element("span", { className: "grid-head", textContent: data.channels.get(key).name.replace(/^head /, "") }); node.style.width = `${size}px`; return node; }),
  ]);
  paintGrid(scene, places, size);
  const note = "Rows: layers, columns: heads. Each small map has its own scale. A click opens it.";
  return element("div", {}, [element("div", { className: "toggles" }, [blockChoice(scene, go)]), element("p", { className: "note", textContent: note }), element("div", { className: "grid" }, [heads, ...lines])]);
}
