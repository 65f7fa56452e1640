/* The reader's choices: layer, step, and how cells are coloured. */

/** Native radio buttons: arrow keys, focus and names come with them. */
function radio(group, value, content, properties, pick) {
  const input = element("input", { type: "radio", name: group, value, disabled: Boolean(properties.disabled) });
  input.addEventListener("change", () => pick(value));
  return element("label", { className: properties.className || "option", title: properties.title || "" }, [input, ...content]);
}

function fillRadios(id, options, pick) {
  document.getElementById(id).replaceChildren(...options.map(({ value, label, ...properties }) =>
    radio(id, value, [element("span", { textContent: label })], properties, pick)));
}

function checkRadio(id, value) {
  for (const input of document.querySelectorAll(`#${id} input`)) input.checked = input.value === String(value);
}

function layerControls(data, go) {
  fillRadios("layers", data.layers.map((layer) => ({ value: layer, label: String(layer) })), (layer) => go({ layer }));
}

/** One bar a layer: how much the step changed the ranking of token pairs. */
function bars(data, step, most, go) {
  const changes = data.changes[step.scope];
  const shapes = changes.map((change, index) => {
    const height = change === null ? 0 : Math.max(0.6, (36 * change) / most);
    const layer = data.layers[index];
    const bar = svg("g", { class: "bar", "data-layer": layer }, [
      svg("title", {}, [`layer ${layer}: ${change === null ? "undefined" : formatNumber(change)}`]),
      svg("rect", { x: index, y: 0, width: 1, height: 36, class: "bar-ground" }),
      svg("rect", { x: index + 0.1, y: 36 - height, width: 0.8, height, class: "bar-fill" }),
    ]);
    bar.addEventListener("click", (event) => { event.preventDefault(); go({ layer, scope: step.scope }); });
    return bar;
  });
  const label = `contextualization change by layer: ${changes.map((change, i) => `${data.layers[i]}: ${formatNumber(change ?? NaN)}`).join(", ")}`;
  return svg("svg", { viewBox: `0 0 ${changes.length} 36`, preserveAspectRatio: "none", class: "bars", role: "img", "aria-label": label }, shapes);
}

function card(data, step, index, most, go) {
  const follows = index > 0 && step.before === data.steps[index - 1].scope;
  const content = [
    element("span", { className: "card-head" }, [
      element("span", { className: `tag ${step.component}`, textContent: step.component }),
      element("span", { className: "scope", textContent: step.scope }),
    ]),
    element("span", { className: "shows", textContent: step.shows }),
  ];
  if (data.changes[step.scope]) content.push(bars(data, step, most, go), element("span", { className: "change" }));
  else if (!data.signed) content.push(element("span", { className: "shows nothing", textContent: "no map before it to compare" }));
  return radio("steps", step.scope, content, { className: `card${follows ? " follows" : ""}` }, (scope) => go({ scope }));
}

function stepControls(data, go) {
  const all = Object.values(data.changes).flat().filter((change) => change !== null);
  const most = largest(all) || 1;
  document.getElementById("steps").replaceChildren(...data.steps.map((step, index) => card(data, step, index, most, go)));
  const note = document.getElementById("bars-note");
  note.textContent = all.length
    ? `Bars, one a layer: contextualization change, 1 − Spearman's ρ between the maps before and after the step (0 = same ranking of token pairs). All bars share one scale, up to ${formatRough(most, false)}. Click a bar to go there.`
    : "";
}

function markBars(data, choice) {
  for (const bar of document.querySelectorAll(".bar")) bar.classList.toggle("current", bar.dataset.layer === String(choice.layer));
  document.querySelectorAll("#steps .card").forEach((node, index) => {
    const label = node.querySelector(".change");
    if (!label) return;
    const change = data.changes[data.steps[index].scope][data.layers.indexOf(choice.layer)];
    label.textContent = `layer ${choice.layer}: ${change === null ? "undefined" : formatNumber(change)}`;
  });
}

const RANGES = [["off-diagonal", "largest off-diagonal"], ["percentile", "99th percentile"], ["all", "largest of all"]];

function colourControls(data, choice, go) {
  const partial = data.nRows < data.nColumns;
  fillRadios("normalise", [
    { value: "row", label: "share of row", title: "each row divided by its sum: what one destination receives" },
    { value: "column", label: "share of column", disabled: partial, title: partial ? "needs every row; this result holds some only" : "each column divided by its sum: what one source gives" },
    { value: "none", label: "norm", title: "as computed, in residual-stream units" },
  ], (normalise) => go({ normalise }));
  fillRadios("sharing", [
    { value: "shared", label: "shared by the pair" }, { value: "own", label: "own per map" },
  ], (sharing) => go({ sharing }));
  const range = document.getElementById("range");
  range.replaceChildren(...RANGES.map(([value, label]) => element("option", { value, textContent: label })));
  range.addEventListener("change", () => go({ range: range.value }));
  const hide = document.getElementById("hide-diagonal");
  hide.addEventListener("change", () => go({ hideDiagonal: hide.checked }));
  document.getElementById("normalise-group").hidden = data.signed;
}

function markControls(view) {
  const { data, choice } = view;
  checkRadio("layers", choice.layer);
  checkRadio("steps", choice.scope);
  checkRadio("normalise", choice.normalise);
  checkRadio("sharing", choice.sharing);
  document.getElementById("range").value = choice.range;
  document.getElementById("sharing-group").hidden = view.maps.length === 1;
  markBars(data, choice);
}
