// Certified confidence against certified radius, a point an input.
function scatterAxes(run, name) {
  const measure = run.measures[name];
  const method = ownMethod(measure);
  const threshold = state.thresholds[name];
  const x = run.labelRadius
    ? (input) => run.labelRadius.radius[input] / UNIT
    : (input) => radiusAbove(measure, method, input, threshold);
  return {
    x,
    y: (input) => lowerUnits(measure, method, input, state.radius) / UNIT,
    xLabel: run.labelRadius ? "certified radius of the label" : `certified radius of an average ${measure.title} above ${shortText(threshold)}`,
    yLabel: `certified ${measure.title} within ${RADII[state.radius]}`,
    low: measure.low,
    high: measure.high,
  };
}

function radiusAbove(measure, method, input, threshold) {
  const reach = reachAbove(measure, method, input, threshold);
  return reach ? Number(RADII[reach - 1]) : 0;
}

function drawScatter(inputs) {
  const run = RUNS[state.run];
  const name = measureOf(run, state.measure);
  byId("scatter-figure").hidden = name === null;
  if (name === null) return;
  const axes = scatterAxes(run, name);
  const canvas = byId("scatter");
  const scale = window.devicePixelRatio || 1;
  const width = (canvas.width = Math.round(canvas.clientWidth * scale));
  const height = (canvas.height = Math.round(canvas.clientHeight * scale));
  const pad = { left: 66 * scale, right: 16 * scale, top: 12 * scale, bottom: 48 * scale };
  const furthest = Math.max(0.1, ...sampled(run.inputs).map(axes.x)) * 1.04;
  const x = (value) => pad.left + (value / furthest) * (width - pad.left - pad.right);
  const y = (value) => pad.top + ((axes.high - value) / (axes.high - axes.low)) * (height - pad.top - pad.bottom);
  const style = getComputedStyle(document.documentElement);
  const ink = (variable) => style.getPropertyValue(variable).trim();
  const pen = canvas.getContext("2d");
  pen.clearRect(0, 0, width, height);
  pen.font = `${14 * scale}px system-ui, sans-serif`;
  pen.fillStyle = ink("--muted");
  pen.strokeStyle = ink("--grid");
  pen.lineWidth = scale;
  for (const tick of ticks(0, furthest, width < 600 * scale ? 4 : 8)) {
    line(pen, x(tick), pad.top, x(tick), height - pad.bottom);
    pen.textAlign = "center";
    pen.fillText(tickText(tick), x(tick), height - pad.bottom + 19 * scale);
  }
  for (const tick of ticks(axes.low, axes.high, 5)) {
    line(pen, pad.left, y(tick), width - pad.right, y(tick));
    pen.textAlign = "right";
    pen.fillText(tickText(tick), pad.left - 7 * scale, y(tick) + 5 * scale);
  }
  pen.fillStyle = ink("--ink");
  pen.textAlign = "center";
  pen.fillText(axes.xLabel, (pad.left + width - pad.right) / 2, height - 8 * scale);
  pen.save();
  pen.translate(16 * scale, (pad.top + height - pad.bottom) / 2);
  pen.rotate(-Math.PI / 2);
  pen.fillText(axes.yLabel, 0, 0);
  pen.restore();
  const size = (inputs.length > 2000 ? 1.8 : 3.4) * scale;
  pen.lineWidth = (inputs.length > 2000 ? 1 : 1.7) * scale;
  const colours = [ink("--c0"), ink("--c1"), ink("--c4")];
  canvas.points = Array.from(inputs, (input) => ({ input, x: x(axes.x(input)), y: y(axes.y(input)) }));
  for (const kind of [RIGHT, ABSTAINED, WRONG]) {
    pen.strokeStyle = pen.fillStyle = colours[kind];
    pen.globalAlpha = inputs.length > 2000 ? 0.45 : 0.8;
    for (const point of canvas.points) if (run.state[point.input] === kind) mark(pen, point, size, kind);
  }
  pen.globalAlpha = 1;
  if (state.measure === name) {
    pen.strokeStyle = ink("--ink");
    pen.lineWidth = 1.2 * scale;
    pen.setLineDash([4 * scale, 4 * scale]);
    const threshold = state.thresholds[name] / UNIT;
    line(pen, pad.left, y(threshold), width - pad.right, y(threshold));
    pen.setLineDash([]);
  }
  canvas.setAttribute("aria-label", `${axes.yLabel} against ${axes.xLabel}, ${inputs.length} inputs; the table below has the same numbers`);
  byId("scatter-caption").replaceChildren(
    "Each input: ", key("right"), " right, ", key("wrong"), " wrong, ", key("abstained"),
    " abstained. High: confidence that holds. Low and right: a safe label with modest confidence. Click a point to see the input.");
}

function key(kind) {
  return element("span", { class: `key ${kind}`, "aria-hidden": "true" }, { right: "●", wrong: "✕", abstained: "○" }[kind]);
}

function sampled(count) {
  return Array.from({ length: count }, (_, k) => k);
}

function mark(pen, point, size, kind) {
  if (kind === WRONG) {
    line(pen, point.x - size, point.y - size, point.x + size, point.y + size);
    line(pen, point.x - size, point.y + size, point.x + size, point.y - size);
    return;
  }
  pen.beginPath();
  pen.arc(point.x, point.y, size, 0, 2 * Math.PI);
  if (kind === RIGHT) pen.fill();
  else pen.stroke();
}

function line(pen, x1, y1, x2, y2) {
  pen.beginPath();
  pen.moveTo(x1, y1);
  pen.lineTo(x2, y2);
  pen.stroke();
}

function listenToScatter() {
  const canvas = byId("scatter");
  window.addEventListener("resize", () => drawScatter(state.listed));
  canvas.addEventListener("click", (event) => {
    const box = canvas.getBoundingClientRect();
    const at = { x: ((event.clientX - box.left) / box.width) * canvas.width, y: ((event.clientY - box.top) / box.height) * canvas.height };
    let best = null, least = (14 * (window.devicePixelRatio || 1)) ** 2;
    for (const point of canvas.points || []) {
      const distance = (point.x - at.x) ** 2 + (point.y - at.y) ** 2;
      if (distance < least) [best, least] = [point, distance];
    }
    if (best) openEntry(state.run, best.input);
  });
}
