/* Places of the page keep what stands in them while what it is made from stays. */

/** Whether the page lies in a frame, as in a notebook. */
export const FRAMED_PAGE = globalThis.parent !== globalThis.window;

/** Draws; the part of `host` that had the focus, or its successor, has it again. */
function keepFocus(host, draw) {
  const parts = Array.from(host.querySelectorAll("[tabindex]"));
  const index = parts.indexOf(document.activeElement);
  draw();
  const successor = host.querySelectorAll("[tabindex]")[index];
  if (index >= 0 && successor) successor.focus({ preventScroll: true });
}

/**
 * A function that fills `host`: `draw()` gives `{ nodes, update }`, or nodes alone. They are made anew where `key` changed or
 * `update(scene)`, which tells them the scene of now (what is selected, what is pointed at), says false: it does not fit.
 */
export function placeAt(host) {
  let [known, drawing] = [null, null];
  return (scene, key, draw) => {
    if (key === known && drawing.update && drawing.update(scene) !== false) return;
    keepFocus(host, () => {
      const drawn = draw();
      drawing = drawn.nodes ? drawn : { nodes: [drawn].flat(), update: null };
      host.replaceChildren(...drawing.nodes);
    });
    known = key;
    if (drawing.update) drawing.update(scene);
  };
}

/** What a drawing is made from, as a key: these fields of the selection, width and colours of the page. */
export function madeFrom(scene, fields, width) {
  return JSON.stringify([width, scene.ratio, scene.palette.name, ...fields.map((field) => scene.selection[field])]);
}

/** Runs jobs a few at a time, so that nothing waits for them, as long as `wanted()`; for paper all at once. */
export function inPieces({ paper }, jobs, wanted) {
  if (paper) { for (const job of jobs) job(); return; }
  const left = [...jobs];
  const step = () => {
    const until = performance.now() + 12;
    while (left.length && wanted() && performance.now() < until) left.shift()();
    if (left.length && wanted()) setTimeout(step);
  };
  setTimeout(step);
}
