// The upper half of the page: sliders, certified accuracy against radius and threshold, and the comparison.
const DASHES = ["", "dashed", "dotted", "dashdot"];

// Round thresholds within a measure's range, in ten-thousandths: a hundred of them or a few hundred.
function thresholdSteps(name) {
  const [low, high] = MEASURES.get(name).units;
  const step = Math.max(1, 10 ** (Math.floor(Math.log10(high - low)) - 2));
  const first = Math.ceil(low / step) * step;
  return { first, step, count: Math.floor((high - first) / step) + 1 };
}

function seriesOf(measureName) {
  const found = [];
  for (const run of RUNS) {
    if (measureName === "label") {
      if (run.labelRadius) found.push({ run, measure: null, method: { name: "votes-clopper-pearson", title: "votes (Cohen)", guaranteed: true, own: true } });
      continue;
    }
    const measure = run.measures[measureName];
    for (const method of measure ? measure.methods : []) found.push({ run, measure, method });
  }
  const names = [...new Set(found.map((series) => series.method.name))];
  return found.map((series) => {
    const among = names.indexOf(series.method.name);
    const several = RUNS.length > 1;
    return {
      ...series,
      key: `${measureName}/${series.run.position}/${series.method.name}`,
      colour: `colour-${(several ? series.run.position : among) % 7}`,
      dash: DASHES[among % DASHES.length],
      title: several ? `${series.run.name}: ${series.method.title}` : series.method.title,
    };
  });
}

function isShown(series) {
  const chosen = state.shown.get(series.key);
  if (chosen !== undefined) return chosen;
  return RUNS.length === 1 || series.method.own;
}

function claimText(threshold) {
  return state.measure === "label" ? "keep their label" : `keep an average ${MEASURES.get(state.measure).title} above ${shortText(threshold)}`;
}

function drawOverview() {
  const threshold = state.thresholds[state.measure];
  const all = seriesOf(state.measure);
  const shown = all.filter(isShown);
  drawControls(threshold);
  drawLegend(all);
  drawVerdict(shown[0] || all[0], threshold);
  drawByRadius(shown, threshold);
  drawByThreshold(shown);
  drawComparison(all, threshold);
}

function drawControls(threshold) {
  const label = state.measure === "label";
  byId("threshold-control").hidden = label;
  byId("by-threshold-figure").hidden = label;
  byId("radius").value = state.radius;
  byId("radius").setAttribute("aria-valuetext", `radius ${RADII[state.radius]}`);
  byId("radius-value").textContent = RADII[state.radius];
  if (label) return;
  const { first, step, count } = thresholdSteps(state.measure), last = first + (count - 1) * step;
  const slider = byId("threshold"), number = byId("threshold-number");
  Object.assign(slider, { min: first, max: last, step, value: threshold });
  slider.setAttribute("aria-valuetext", `average ${MEASURES.get(state.measure).title} above ${shortText(threshold)}`);
  Object.assign(number, { min: first / UNIT, max: last / UNIT, step: step / UNIT });
  if (document.activeElement !== number) number.value = shortText(threshold);
}

function drawLegend(all) {
  const legend = byId("legend");
  const entries = all.map((series) => {
    const box = element("input", {
      type: "checkbox",
      checked: isShown(series),
      "data-series": series.key,
      onchange: (event) => {
        state.shown.set(series.key, event.target.checked);
        changed();
        const again = [...byId("legend").querySelectorAll("input")].find((each) => each.dataset.series === series.key);
        again.focus(); // the legend was drawn anew
      },
    });
    const swatch = drawn("svg", { viewBox: "0 0 30 10", class: "swatch", "aria-hidden": "true" },
      drawn("path", { d: "M1 5H29", class: `line ${series.colour} ${series.dash}` }));
    return element("label", {}, box, swatch, series.title);
  });
  legend.replaceChildren(element("legend", {}, RUNS.length > 1 ? "Runs and bounds" : "Bounds"), ...entries);
}

function drawVerdict(series, threshold) {
  if (!series) return byId("verdict").replaceChildren("Nothing here certifies this.");
  const { run } = series;
  const count = countsByRadius(series, threshold)[state.radius];
  const { low, high } = interval(run, count);
  byId("verdict").replaceChildren(
    "Within radius ", element("b", {}, RADII[state.radius]), ", ",
    element("b", { id: "verdict-share" }, percentOf(count, run.inputs)),
    ` of the inputs are right and ${series.method.guaranteed ? "certified" : "estimated (not certified)"} to ${claimText(threshold)} (`,
    element("span", { id: "verdict-count" }, countOf(count, run.inputs)), ").",
    element("small", {}, `${series.title}. ${LEVEL_TEXT} interval for the share in the population: `,
      element("span", { id: "verdict-interval" }, `${percentDown(low)} to ${percentUp(high)}`), "."),
  );
}

function lineOf(series, counts) {
  const total = series.run.inputs;
  const ends = Array.from(counts, (count) => interval(series.run, count));
  return {
    colour: series.colour,
    dash: series.dash,
    values: Array.from(counts, (count) => count / total),
    low: series.method.own ? ends.map((each) => each.low / UNIT) : null,
    high: ends.map((each, k) => (counts[k] ? each.high / UNIT : 0)), // where nothing is certified, a band would only hide others
  };
}

function drawByRadius(shown, threshold) {
  const xs = RADII.map(Number);
  const lines = shown.map((series) => lineOf(series, countsByRadius(series, threshold)));
  byId("by-radius").replaceChildren(lineChart({
    label: `Certified accuracy against radius, for inputs that ${claimText(threshold)}`,
    xs, lines,
    xLabel: RADIUS_LABEL,
    xMax: CHART_END,
    yText: (tick) => `${Math.round(100 * tick)}%`,
    marker: xs[state.radius],
    onPick: (value) => { state.radius = nearest(xs, value); changed(); },
  }));
  byId("by-radius-caption").textContent = state.measure === "label"
    ? "Right and certified to keep their label, against the radius."
    : `Right and certified above ${shortText(threshold)}, against the radius. Drag in the chart to move the radius.`;
}

function drawByThreshold(shown) {
  if (state.measure === "label") return;
  const steps = thresholdSteps(state.measure);
  const xs = Array.from({ length: steps.count }, (_, k) => (steps.first + k * steps.step) / UNIT);
  const lines = shown.map((series) => lineOf(series, countsByThreshold(series, state.radius, steps)));
  byId("by-threshold").replaceChildren(lineChart({
    label: `Certified accuracy against the threshold, at radius ${RADII[state.radius]}`,
    xs, lines,
    xLabel: `confidence threshold (average ${MEASURES.get(state.measure).title})`,
    xMin: xs[0], xMax: xs[xs.length - 1],
    yText: (tick) => `${Math.round(100 * tick)}%`,
    marker: xs[nearest(xs, state.thresholds[state.measure] / UNIT)],
    onPick: (value) => { state.thresholds[state.measure] = steps.first + steps.step * nearest(xs, value); changed(); },
  }));
  byId("by-threshold-caption").textContent =
    `Right and certified within radius ${RADII[state.radius]}, against the threshold. Drag in the chart to move it.`;
}

function drawComparison(all, threshold) {
  const table = byId("comparison");
  const head = [RUNS.length > 1 ? "run and bound" : "bound", "share", `${LEVEL_TEXT} interval`, "right and certified", "right at all"];
  table.tHead.replaceChildren(element("tr", {}, head.map((text) => element("th", { scope: "col" }, text))));
  table.tBodies[0].replaceChildren(...all.map((series) => {
    const { run } = series;
    const count = countsByRadius(series, threshold)[state.radius];
    const { low, high } = interval(run, count);
    const right = run.state.reduce((sum, each) => sum + (each === RIGHT), 0);
    const cells = [
      element("td", { class: "number share" }, percentOf(count, run.inputs)),
      element("td", { class: "number" }, `${percentDown(low)} to ${percentUp(high)}`),
      element("td", { class: "number" }, countOf(count, run.inputs)),
      element("td", { class: "number" }, percentOf(right, run.inputs)),
    ];
    return element("tr", { "data-series": series.key }, element("th", { scope: "row" }, series.title), cells);
  }));
  table.caption.textContent = state.measure === "label"
    ? `Label certified within radius ${RADII[state.radius]}`
    : `Average ${MEASURES.get(state.measure).title} certified above ${shortText(threshold)} within radius ${RADII[state.radius]}`;
}

function listenToControls() {
  const select = byId("measure");
  select.append(...[...MEASURES.values()].map(({ name, title, units }) => element("option", { value: name }, units ? `average ${title}` : title)));
  byId("measure-control").hidden = MEASURES.size < 2;
  byId("radius").max = RADII.length - 1;
  select.addEventListener("change", () => { state.measure = select.value; changed(); });
  byId("threshold").addEventListener("input", (event) => { state.thresholds[state.measure] = Number(event.target.value); changed(); });
  byId("threshold-number").addEventListener("input", (event) => {
    const units = Math.round(Number(event.target.value) * UNIT);
    if (event.target.value === "" || !event.target.validity.valid && !event.target.validity.stepMismatch) return;
    state.thresholds[state.measure] = units;
    changed();
  });
  byId("radius").addEventListener("input", (event) => { state.radius = Number(event.target.value); changed(); });
}
