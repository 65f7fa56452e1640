/* The sentence, coloured by where one destination's contributions come from. */

/** Darkest colour: the largest contribution from another token, so that the token's own does not drown the rest. */
function readingLimit(view) {
  const { data, choice } = view;
  const others = [];
  for (const map of view.maps.filter((one) => one.role !== "difference")) {
    for (let column = 0; column < data.nColumns; column++) {
      const value = map.cells[choice.pinned * data.nColumns + column];
      if (!Number.isNaN(value) && column !== data.queries[choice.pinned]) others.push(Math.abs(value));
    }
  }
  return largest(others);
}

function chipTitle(view, column, value) {
  const number = view.choice.normalise === "none" ? formatNumber(value) : formatPercent(value);
  return Number.isNaN(value) ? `position ${column}: not reachable` : `position ${column}: ${number}`;
}

function chip(view, map, column, limit) {
  const { data, choice } = view;
  const value = map.cells[choice.pinned * data.nColumns + column];
  const colour = Number.isNaN(value) ? null : colourOf(value, limit, map.scale);
  const node = element("span", { className: "chip", title: chipTitle(view, column, value) }, [element("bdi", { textContent: data.tokens[column] })]);
  const selected = column === data.queries[choice.pinned];
  node.setAttribute("role", "option");
  node.setAttribute("aria-selected", String(selected));
  node.dataset.position = column;
  if (!colour) node.classList.add("later");
  else Object.assign(node.style, { backgroundColor: rgbToHex(colour), color: readableOn(colour) });
  return node;
}

function sentence(view, map, limit, pin) {
  const { data, choice } = view;
  const host = element("div", { className: "tokens", tabIndex: 0 }, data.tokens.map((_, column) => chip(view, map, column, limit)));
  host.setAttribute("role", "listbox");
  host.setAttribute("aria-label", `destination, coloured by ${map.scope}`);
  host.addEventListener("click", (event) => {
    const picked = event.target.closest(".chip");
    const row = picked ? data.queries.indexOf(Number(picked.dataset.position)) : -1;
    if (row >= 0) pin(row);
  });
  host.addEventListener("keydown", (event) => {
    const step = { ArrowRight: 1, ArrowLeft: -1 }[event.key];
    if (!step) return;
    event.preventDefault();
    pin(Math.max(0, Math.min(data.nRows - 1, choice.pinned + step)), map.role);
  });
  return host;
}

function readingTitle(view, limit) {
  const { data, choice } = view;
  const share = limit > 0 ? ` Darkest: ${formatRough(limit, choice.normalise !== "none")}, the largest from another token.` : "";
  return element("p", { className: "reading-title" }, [
    data.signed ? "Difference in the sources of " : "Sources of ",
    element("b", {}, [element("bdi", { textContent: data.tokens[data.queries[choice.pinned]] })]),
    ` (position ${data.queries[choice.pinned]}).${share} `,
    element("span", { className: "note", textContent: "Click a token, or a row of a map, to read another destination." }),
  ]);
}

function drawReading(view, host, pin) {
  const limit = readingLimit(view);
  const lines = view.maps.filter((map) => map.role !== "difference").map((map) => {
    const label = element("span", { className: "line-label", textContent: map.role === "only" ? map.scope : `${map.role} ${componentOf(view)}` });
    const line = element("div", { className: "line" }, [label, sentence(view, map, limit, pin)]);
    line.dataset.role = map.role;
    return line;
  });
  host.replaceChildren(readingTitle(view, limit), ...lines);
  host.classList.toggle("long", view.data.nColumns > 40);
}
