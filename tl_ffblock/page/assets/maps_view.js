/* View: one map, or before, after and difference of any two. */

function panelOf(scene, frame, go) {
  const cells = element("div", { className: "cells" }, [canvasOf(scene, frame)]);
  Object.assign(cells.style, { left: `${frame.left}px`, top: `${frame.top}px`, width: `${frame.across}px`, height: `${frame.down}px` });
  frame.marks = svg("g", { class: "marks" });
  const drawing = svg("svg", { width: frame.width, height: frame.height, "aria-hidden": "true" }, [...furniture(scene, frame), frame.marks]);
  frame.panel = element("div", { className: "panel", tabIndex: 0 }, [cells, drawing]);
  frame.panel.setAttribute("role", "application");
  frame.panel.setAttribute("aria-label", `${titleOf(scene, frame.map)}. Arrow keys read cells, Enter selects.`);
  frame.panel.dataset.role = frame.map.role;
  Object.assign(frame.panel.style, { left: `${frame.x}px`, top: `${frame.y}px`, width: `${frame.width}px`, height: `${frame.height}px` });
  if (scene.maps.length > 1) frame.panel.append(enlargeButton(scene, frame, go));
  return frame.panel;
}

function enlargeButton(scene, frame, go) {
  const enlarged = scene.selection.panel === frame.map.role;
  const button = element("button", { type: "button", className: "enlarge", textContent: enlarged ? "⤡" : "⤢", title: enlarged ? "show all maps" : "show this map alone" });
  button.setAttribute("aria-label", button.title);
  button.addEventListener("click", (event) => { event.stopPropagation(); go({ panel: enlarged ? "" : frame.map.role }); });
  button.addEventListener("pointerdown", (event) => event.stopPropagation());
  return button;
}

/** The maps as an element; `scene.layout` keeps where they stand. */
function mapsView(scene, go, width) {
  const layout = layoutOf(scene, width);
  const plot = element("div", { className: "plot" });
  plot.style.height = `${layout.height}px`;
  plot.append(svg("svg", { width: 0, height: 0, "aria-hidden": "true" }, [hatchPattern(scene.palette)]));
  const mark = (target) => { for (const frame of layout.frames) frame.marks.replaceChildren(...marksOf(scene, frame, target)); };
  scene.marked.push(mark);
  for (const frame of layout.frames) {
    plot.append(panelOf(scene, frame, go));
    enablePointing(scene, frame, go, scene.hover);
  }
  mark(null);
  scene.layout = layout;
  return plot;
}
