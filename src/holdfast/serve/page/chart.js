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

const line = (points) => points.map(([x, y], k) => `${k ? "L" : "M"}${x.toFixed(1)} ${y.toFixed(1)}`).join("");

export function drawCurve(figure, { curve, labelRadius, ghosts, radii, norm, k, support, threshold, note }) {
  const { svg, width, height } = canvas(figure);
  const box = { left: 38, right: width - 14, top: 12, bottom: height - 38 };
  const farthest = radii[radii.length - 1];
  const x = (radius) => box.left + (box.right - box.left) * radius / farthest;
  const [low, high] = support;
  const y = (value) => box.bottom - (box.bottom - box.top) * (value - low) / (high - low);
  for (const part of [0, 0.25, 0.5, 0.75, 1]) {
    const value = low + (high - low) * part;
    add(svg, "line", { class: "grid", x1: box.left, x2: box.right, y1: y(value), y2: y(value) });
    add(svg, "text", { x: box.left - 7, y: y(value) + 4, "text-anchor": "end" }, Number(value.toPrecision(3)));
  }
  const ticks = width < 480 ? 4 : 8;
  for (let tick = 0; tick <= ticks; tick += 1) {
    const radius = farthest * tick / ticks;
    add(svg, "text", { x: x(radius), y: box.bottom + 17, "text-anchor": tick === ticks ? "end" : "middle" }, Number(radius.toPrecision(3)));
  }
  add(svg, "text", { x: (box.left + box.right) / 2, y: height - 4, "text-anchor": "middle" }, `radius of the attack (${norm})`);
  for (const ghost of ghosts) add(svg, "path", { class: "ghost", d: line(ghost.map((bound, j) => [x(radii[j]), y(bound)])) });
  if (curve) {
    const lower = curve.lower.map((bound, j) => [x(radii[j]), y(bound)]);
    if (curve.upper) {
      const upper = curve.upper.map((bound, j) => [x(radii[j]), y(bound)]);
      add(svg, "path", { class: "band", d: `${line(lower)}${line([...upper].reverse()).replace("M", "L")}Z` });
      add(svg, "path", { class: "upper", d: line(upper) });
    }
    add(svg, "path", { class: "lower", d: line(lower) });
    if (labelRadius > 0 && labelRadius <= farthest) {
      const at = x(labelRadius);
      add(svg, "path", { class: "safe", d: `M${at} ${box.bottom - 1}l-5 -9h10Z` });
      const end = at > box.right - 130;
      add(svg, "text", { x: end ? at - 9 : at + 9, y: box.bottom - 5, "text-anchor": end ? "end" : "start" }, "label safe up to here");
    }
  }
  add(svg, "line", { class: "ask", x1: box.left, x2: box.right, y1: y(threshold), y2: y(threshold) });
  add(svg, "line", { class: "mark", x1: x(radii[k]), x2: x(radii[k]), y1: box.top, y2: box.bottom });
  if (note && !curve) add(svg, "text", { x: (box.left + box.right) / 2, y: (box.top + box.bottom) / 2, "text-anchor": "middle" }, note);
  if (curve) {
    add(svg, "circle", { class: "dot", cx: x(radii[k]), cy: y(curve.lower[k]), r: 6 });
    if (curve.upper) add(svg, "circle", { class: "updot", cx: x(radii[k]), cy: y(curve.upper[k]), r: 4.5 });
    legend(svg, curve, { at: x(farthest) - 4, y, floor: y(low + 0.06 * (high - low)) });
  }
}

// Each curve is named where it ends, inside the band.
function legend(svg, curve, { at, y, floor }) {
  if (curve.upper) {
    const low = Math.max(...curve.upper.slice(240).map((bound) => y(bound)));
    add(svg, "text", { class: "label-upper", x: at, y: low + 20, "text-anchor": "end" }, "upper bound: never above");
  }
  const high = Math.min(...curve.lower.slice(240).map((bound) => y(bound)));
  add(svg, "text", { class: "label-lower", x: at, y: Math.min(high, floor) - 8, "text-anchor": "end" }, "lower bound: never below");
}

export function drawHistogram(figure, { title, support, histogram: counts, mean }) {
  const { svg, width, height } = canvas(figure);
  const box = { left: 4, right: width - 4, top: 8, bottom: height - 32 };
  const most = Math.max(1, ...counts);
  const step = (box.right - box.left) / counts.length;
  counts.forEach((count, k) => {
    // The square root lets rare values be seen beside common ones.
    const tall = (box.bottom - box.top) * Math.sqrt(count / most);
    add(svg, "rect", { class: "bar", x: box.left + k * step + 0.5, y: box.bottom - tall, width: Math.max(1, step - 1), height: tall });
  });
  add(svg, "line", { class: "grid", x1: box.left, x2: box.right, y1: box.bottom, y2: box.bottom });
  const [low, high] = support;
  for (const part of [0, 0.5, 1]) {
    const anchor = part === 0 ? "start" : part === 1 ? "end" : "middle";
    add(svg, "text", { x: box.left + (box.right - box.left) * part, y: box.bottom + 15, "text-anchor": anchor }, Number((low + (high - low) * part).toPrecision(3)));
  }
  add(svg, "text", { x: (box.left + box.right) / 2, y: height - 2, "text-anchor": "middle" }, `${title} of a copy (heights: square roots)`);
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
