// Elements from plain values. Text is always text: nothing from a run is ever read as markup.
function element(tag, attributes = {}, ...children) {
  return filled(document.createElement(tag), attributes, children);
}

function drawn(tag, attributes = {}, ...children) {
  return filled(document.createElementNS("http://www.w3.org/2000/svg", tag), attributes, children);
}

function filled(node, attributes, children) {
  for (const [name, value] of Object.entries(attributes)) {
    if (name.startsWith("on")) node.addEventListener(name.slice(2), value);
    else if (value === true) node.setAttribute(name, "");
    else if (value !== false && value !== null && value !== undefined) node.setAttribute(name, value);
  }
  node.append(...children.flat().filter((child) => child !== null && child !== undefined));
  return node;
}

// Names of noises and norms, as formulas have them.
function symbols(text) {
  return text.replace("sigma", "σ").replace("l1", "ℓ₁").replace("l2", "ℓ₂");
}

// A line of a legend.
function swatch(classes, title) {
  return element("span", {},
    drawn("svg", { viewBox: "0 0 30 10", class: "swatch", "aria-hidden": "true" }, drawn("path", { d: "M1 5H29", class: `line ${classes}` })),
    title);
}

function byId(id) {
  return document.getElementById(id);
}
