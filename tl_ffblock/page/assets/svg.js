/* Small tools for SVG and text. */

const SVG = "http://www.w3.org/2000/svg";
const FONT = "system-ui, -apple-system, 'Segoe UI', 'Helvetica Neue', Arial, sans-serif";

function svg(name, attributes = {}, children = []) {
  const node = document.createElementNS(SVG, name);
  for (const [key, value] of Object.entries(attributes)) node.setAttribute(key, value);
  node.append(...children);
  return node;
}

function rectangle(x, y, width, height, fill) {
  return svg("rect", { x, y, width, height, fill, "shape-rendering": "crispEdges" });
}

function text(content, x, y, attributes = {}) {
  return svg("text", { x, y, "font-size": 12, fill: "#17202a", ...attributes }, [content]);
}

function element(name, properties = {}, children = []) {
  const node = Object.assign(document.createElement(name), properties);
  node.append(...children);
  return node;
}

const ruler = document.createElement("canvas").getContext("2d");

function textWidth(content, size) {
  ruler.font = `${size}px ${FONT}`;
  return ruler.measureText(content).width;
}

/** The text, cut with an ellipsis where it is wider than `width`. */
function fitText(content, size, width) {
  if (textWidth(content, size) <= width) return content;
  const letters = Array.from(content);
  while (letters.length > 1 && textWidth(letters.join("") + "…", size) > width) letters.pop();
  return letters.join("") + "…";
}

function wrapText(content, size, width) {
  const lines = [""];
  for (const word of content.split(" ")) {
    const longer = lines[lines.length - 1] ? `${lines[lines.length - 1]} ${word}` : word;
    if (lines[lines.length - 1] && textWidth(longer, size) > width) lines.push(word);
    else lines[lines.length - 1] = longer;
  }
  return lines;
}
