// Line charts, drawn as steps: between two points a line has the value of the right one, so it never claims too much.
const MARGIN = { left: 62, right: 14, top: 12, bottom: 48 };

function lineChart({ label, xs, xLabel, yLabel, lines, xMin = 0, xMax, yMin = 0, yMax = 1, yText, marker, level, onPick, bars, traces }) {
  const [width, height] = PHONE.matches ? [360, 290] : [560, 340]; // drawn about as large as shown, so that text is
  const inner = { width: width - MARGIN.left - MARGIN.right, height: height - MARGIN.top - MARGIN.bottom };
  const x = (value) => MARGIN.left + ((value - xMin) / (xMax - xMin)) * inner.width;
  const y = (value) => MARGIN.top + (1 - (value - yMin) / (yMax - yMin)) * inner.height;
  const chart = drawn("svg", { viewBox: `0 0 ${width} ${height}`, role: "img", "aria-label": label, class: "chart" });
  for (const tick of ticks(yMin, yMax, 5)) {
    chart.append(
      drawn("line", { x1: MARGIN.left, x2: width - MARGIN.right, y1: y(tick), y2: y(tick), class: "grid" }),
      drawn("text", { x: MARGIN.left - 8, y: y(tick) + 5, "text-anchor": "end" }, yText ? yText(tick) : tickText(tick)),
    );
  }
  for (const tick of ticks(xMin, xMax, PHONE.matches ? 4 : 6)) {
    chart.append(
      drawn("line", { x1: x(tick), x2: x(tick), y1: MARGIN.top, y2: height - MARGIN.bottom, class: "grid" }),
      drawn("text", { x: x(tick), y: height - MARGIN.bottom + 19, "text-anchor": "middle" }, tickText(tick)),
    );
  }
  chart.append(
    drawn("text", { x: MARGIN.left + inner.width / 2, y: height - 6, "text-anchor": "middle", class: "axis" }, xLabel),
    drawn("title", {}, label),
  );
  if (yLabel) {
    const at = { x: 15, y: MARGIN.top + inner.height / 2 };
    chart.append(drawn("text", { ...at, "text-anchor": "middle", class: "axis", transform: `rotate(-90 ${at.x} ${at.y})` }, yLabel));
  }
  for (const bar of bars || []) {
    chart.append(drawn("rect", { x: x(bar.from), width: Math.max(0, x(bar.to) - x(bar.from) - 1), y: y(bar.value), height: Math.max(0, y(yMin) - y(bar.value)), class: "bar" }));
  }
  for (const line of lines || []) {
    if (line.low) chart.append(drawn("path", { d: bandPath(xs, line, x, y, xMax), class: `band ${line.colour}` }));
  }
  for (const line of lines || []) {
    chart.append(drawn("path", { d: stepPath(xs, line.values, x, y, xMax), class: `line ${line.colour} ${line.dash || ""}` }));
  }
  if ((traces || []).length === 2) {
    const around = [...traces[0].points, ...traces[1].points.toReversed()];
    chart.append(drawn("path", { d: straightPath(around, x, y) + "Z", class: "between" }));
  }
  for (const trace of traces || []) {
    chart.append(drawn("path", { d: straightPath(trace.points, x, y), class: `line ${trace.colour}` }));
    for (const [at, value] of trace.points) chart.append(drawn("circle", { cx: x(at), cy: y(value), r: 4, class: `dot ${trace.colour}` }));
  }
  if (level !== undefined) {
    chart.append(drawn("line", { x1: MARGIN.left, x2: width - MARGIN.right, y1: y(level), y2: y(level), class: "marker" }));
  }
  if (marker !== undefined && marker <= xMax) {
    chart.append(drawn("line", { x1: x(marker), x2: x(marker), y1: MARGIN.top, y2: height - MARGIN.bottom, class: "marker" }));
    for (const line of lines || []) {
      const at = xs.indexOf(marker);
      if (at >= 0) chart.append(drawn("circle", { cx: x(marker), cy: y(line.values[at]), r: 4, class: `dot ${line.colour}` }));
    }
  }
  if (onPick) {
    chart.classList.add("picks");
    const pick = (event) => {
      const box = chart.getBoundingClientRect();
      const value = xMin + ((((event.clientX - box.left) / box.width) * width - MARGIN.left) / inner.width) * (xMax - xMin);
      onPick(Math.min(xMax, Math.max(xMin, value)));
    };
    chart.addEventListener("pointerdown", pick);
    chart.addEventListener("pointermove", (event) => event.buttons && pick(event));
  }
  return chart;
}

function straightPath(points, x, y) {
  return points.map(([at, value], k) => `${k ? "L" : "M"}${x(at).toFixed(1)} ${y(value).toFixed(1)}`).join("");
}

function stepPath(xs, values, x, y, xMax) {
  let path = `M${x(xs[0]).toFixed(1)} ${y(values[0]).toFixed(1)}`;
  for (let k = 1; k < xs.length && xs[k] <= xMax; k++) path += `V${y(values[k]).toFixed(1)}H${x(xs[k]).toFixed(1)}`;
  return path;
}

function bandPath(xs, line, x, y, xMax) {
  let last = xs.length - 1;
  while (last > 0 && xs[last] > xMax) last--;
  let path = stepPath(xs, line.low, x, y, xMax);
  path += `V${y(line.high[last]).toFixed(1)}`;
  for (let k = last; k > 0; k--) path += `V${y(line.high[k]).toFixed(1)}H${x(xs[k - 1]).toFixed(1)}`;
  return `${path}V${y(line.high[0]).toFixed(1)}Z`;
}

function ticks(from, to, about) {
  const rough = (to - from) / about;
  const scale = 10 ** Math.floor(Math.log10(rough));
  const step = [1, 2, 2.5, 5, 10].map((each) => each * scale).find((each) => each >= rough * 0.999);
  const found = [];
  for (let k = Math.ceil(from / step - 1e-9); k * step <= to + 1e-9; k++) found.push(k * step);
  return found;
}

function tickText(value) {
  return String(Number(value.toFixed(6)));
}

function nearest(xs, value) {
  let best = 0;
  xs.forEach((each, k) => {
    if (Math.abs(each - value) < Math.abs(xs[best] - value)) best = k;
  });
  return best;
}
