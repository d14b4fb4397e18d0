// Drawings in SVG: the certified curve, the histogram. Sizes are those of the element, so that text is readable on a phone.

const SVG = "http://www.w3.org/2000/svg";

function add(parent, name, attributes, text) {
  const node = document.createElementNS(SVG, name);
  for (const [key, value] of Object.entries(attributes)) node.setAttribute(key, value);
  if (text !== undefined) node.textContent = text;
  parent.append(node);
  return node;
}

function canvas(figure) {
  const width = Math.max(240, figure.clientWidth), height = Math.max(120, figure.clientHeight);
  figure.replaceChildren();
  return { svg: add(figure, "svg", { viewBox: `0 0 ${width} ${height}`, role: "presentation" }), width, height };
}

// A text with a name in it, which is cut until the text fits; its tooltip has all of it.
function addFitted(parent, attributes, width, name, words) {
  const node = add(parent, "text", attributes, words(name));
  const whole = node.textContent;
  if (node.getComputedTextLength() <= width) return;
  for (let letters = [...name]; letters.length && node.getComputedTextLength() > width;) {
    letters = letters.slice(0, Math.min(letters.length - 1, Math.floor(letters.length * width / node.getComputedTextLength())));
    node.textContent = words(`${letters.join("")}…`);
  }
  add(node, "title", {}, whole);
}

const line = (points) => points.map(([x, y], k) => `${k ? "L" : "M"}${x.toFixed(1)} ${y.toFixed(1)}`).join("");

// About so many round numbers between two others.
function ticks(from, to, about) {
  const rough = (to - from) / about, power = 10 ** Math.floor(Math.log10(rough));
  const step = power * [1, 2, 5, 10].find((each) => each * power >= rough * 0.999);
  const first = Math.ceil(from / step - 1e-9), last = Math.floor(to / step + 1e-9);
  return Array.from({ length: last - first + 1 }, (_, k) => Number(((first + k) * step).toPrecision(6)));
}

export function drawCurve(figure, key, { curve, title, labelRadius, ghosts, radii, norm, k, support, threshold, note }) {
  const { svg, width, height } = canvas(figure);
  const box = { left: 44, right: width - 12, top: 30, bottom: height - 44 };
  const farthest = radii[radii.length - 1];
  const x = (radius) => box.left + (box.right - box.left) * radius / farthest;
  const [low, high] = support;
  const y = (value) => box.bottom - (box.bottom - box.top) * (value - low) / (high - low);
  for (const value of ticks(low, high, 5)) {
    add(svg, "line", { class: "grid", x1: box.left, x2: box.right, y1: y(value), y2: y(value) });
    add(svg, "text", { x: box.left - 8, y: y(value) + 5, "text-anchor": "end" }, value);
  }
  for (const radius of ticks(0, farthest, width < 480 ? 4 : 8)) {
    add(svg, "line", { class: "grid", x1: x(radius), x2: x(radius), y1: box.bottom, y2: box.bottom + 5 });
    add(svg, "text", { x: x(radius), y: box.bottom + 20, "text-anchor": x(radius) > width - 20 ? "end" : "middle" }, radius);
  }
  addFitted(svg, { class: "axis", x: 0, y: 14 }, width, title, (name) => `average ${name}`);
  add(svg, "text", { class: "axis", x: (box.left + box.right) / 2, y: height - 4, "text-anchor": "middle" }, `radius of the attack (${norm})`);
  for (const ghost of ghosts) add(svg, "path", { class: "ghost", d: line(ghost.map((bound, j) => [x(radii[j]), y(bound)])) });
  const safe = curve && labelRadius > 0 && labelRadius <= farthest;
  if (curve) {
    const lower = curve.lower.map((bound, j) => [x(radii[j]), y(bound)]);
    if (curve.upper) {
      const upper = curve.upper.map((bound, j) => [x(radii[j]), y(bound)]);
      add(svg, "path", { class: "band", d: `${line(lower)}${line([...upper].reverse()).replace("M", "L")}Z` });
      add(svg, "path", { class: "upper", d: line(upper) });
    }
    add(svg, "path", { class: "lower", d: line(lower) });
    if (safe) add(svg, "path", { class: "safe", d: `M${x(labelRadius)} ${box.bottom - 1}l-6 -11h12Z` });
  }
  if (threshold !== null) add(svg, "line", { class: "ask", x1: box.left, x2: box.right, y1: y(threshold), y2: y(threshold) });
  if (k !== null) add(svg, "line", { class: "mark", x1: x(radii[k]), x2: x(radii[k]), y1: box.top, y2: box.bottom });
  if (curve) {
    add(svg, "circle", { class: "dot", cx: x(radii[k]), cy: y(curve.lower[k]), r: 6 });
    if (curve.upper) add(svg, "circle", { class: "updot", cx: x(radii[k]), cy: y(curve.upper[k]), r: 4.5 });
  }
  drawKey(key, [
    curve && ["lower", "lower bound"],
    curve && curve.upper && ["upper", "upper bound"],
    curve && ghosts.length && ["ghost", "earlier looks, at fewer copies"],
    safe && ["safe", "label safe up to here"],
  ].filter(Boolean));
  if (!curve) key.append(note);
}

// The lines are named below the chart, where no name hides a curve.
function drawKey(key, entries) {
  key.replaceChildren(...entries.map(([kind, words]) => {
    const entry = document.createElement("span");
    const svg = add(entry, "svg", { viewBox: "0 0 28 12", "aria-hidden": "true" });
    add(svg, "path", { class: kind, d: kind === "safe" ? "M14 11l-6 -10h12Z" : "M0 6H28" });
    entry.append(words);
    return entry;
  }));
}

export function drawHistogram(figure, { title, support, histogram: counts, mean }) {
  const { svg, width, height } = canvas(figure);
  const box = { left: 4, right: width - 4, top: 8, bottom: height - 42 };
  const most = Math.max(1, ...counts);
  const step = (box.right - box.left) / counts.length;
  counts.forEach((count, k) => {
    // The square root lets rare values be seen beside common ones.
    const tall = (box.bottom - box.top) * Math.sqrt(count / most);
    add(svg, "rect", { class: "bar", x: box.left + k * step + 0.5, y: box.bottom - tall, width: Math.max(1, step - 1), height: tall });
  });
  add(svg, "line", { class: "grid", x1: box.left, x2: box.right, y1: box.bottom, y2: box.bottom });
  const [low, high] = support;
  for (const value of ticks(low, high, 4)) {
    const anchor = value === low ? "start" : value === high ? "end" : "middle";
    add(svg, "text", { x: box.left + (box.right - box.left) * (value - low) / (high - low), y: box.bottom + 18, "text-anchor": anchor }, value);
  }
  const axis = { class: "axis", x: (box.left + box.right) / 2, y: height - 4, "text-anchor": "middle" };
  addFitted(svg, axis, width, title, (name) => `${name} of a copy (heights: square roots)`);
  if (mean !== null) {
    const at = box.left + (box.right - box.left) * (mean - low) / (high - low);
    add(svg, "line", { class: "mean", x1: at, x2: at, y1: box.top, y2: box.bottom });
  }
}

export function drawPixels(target, pixels) {
  const { channels, height, width, base64 } = pixels;
  const bytes = Uint8Array.from(atob(base64), (letter) => letter.charCodeAt(0));
  const image = new ImageData(width, height);
  for (let k = 0; k < width * height; k += 1) {
    for (let c = 0; c < 3; c += 1) image.data[4 * k + c] = bytes[channels * k + (channels === 1 ? 0 : c)];
    image.data[4 * k + 3] = 255;
  }
  target.width = width;
  target.height = height;
  target.getContext("2d").putImageData(image, 0, 0);
}
