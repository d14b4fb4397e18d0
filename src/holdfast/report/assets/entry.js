// One input's own view: picture, certificate in words, curves, histograms.
function openEntry(position, input) {
  state.open = { run: position, input };
  drawEntry();
  const dialog = byId("entry");
  if (!dialog.open) dialog.showModal();
  history.replaceState(null, "", `#run-${position}-input-${RUNS[position].index[input]}`);
}

function openNamed() {
  const match = /^#run-(\d+)-input-(-?\d+)$/.exec(location.hash);
  if (!match || !RUNS[Number(match[1])]) return;
  const position = Number(match[1]);
  const input = RUNS[position].index.indexOf(Number(match[2]));
  if (input < 0) return;
  if (state.run !== position) {
    state.run = position;
    changed();
  }
  openEntry(position, input);
}

function drawEntry() {
  if (!state.open) return;
  const { input } = state.open;
  const run = RUNS[state.open.run];
  const place = state.listed.indexOf(input);
  const step = (by, title) => element("button", {
    type: "button",
    "data-step": by,
    disabled: place < 0 || state.listed[place + by] === undefined,
    onclick: () => {
      openEntry(run.position, state.listed[place + by]);
      const again = document.querySelector(`#entry button[data-step="${by}"]`);
      (again.disabled ? byId("entry-close") : again).focus(); // the view was drawn anew
    },
  }, title);
  const kind = STATES[run.state[input]];
  const attacked = attackedPicture(run, input, state.radius, 168), said = attackWords(run, input, state.radius);
  byId("entry").replaceChildren(
    element("div", { class: "entry-head" },
      element("h2", { id: "entry-title" }, `Input ${run.index[input]}`, RUNS.length > 1 ? element("small", {}, run.name) : null),
      element("div", { class: "tools" }, step(-1, "Previous"), step(1, "Next"),
        element("button", { type: "button", id: "entry-close", onclick: () => byId("entry").close() }, "Close"))),
    element("div", { class: "entry-top" },
      run.pictures ? element("figure", {}, picture(run, input, 168), attacked ? element("figcaption", {}, "the input") : null) : null,
      attacked,
      element("div", {},
        element("p", { class: "tags" },
          element("span", {}, "label: ", element("b", {}, classText(run, run.label[input]))),
          element("span", {}, "answer: ", element("b", {}, classText(run, run.predicted[input]))),
          element("span", {}, key(kind), " ", kind)),
        element("p", { id: "words", class: "verdict" }, words(run, input, state.radius)),
        said ? element("p", { id: "attack-words" }, said) : null,
        element("label", { class: "control wide" }, "Radius",
          element("input", { type: "range", id: "entry-radius", min: 0, max: RADII.length - 1, value: state.radius,
            "aria-valuetext": `radius ${RADII[state.radius]}`,
            oninput: (event) => {
              state.radius = Number(event.target.value);
              changed();
              byId("entry-radius").focus(); // the view was drawn anew
            } }),
          element("output", {}, RADII[state.radius])))),
    element("div", { class: "charts" }, Object.entries(run.measures).flatMap(([name, measure]) => entryFigures(run, name, measure, input))),
    element("div", { class: "tools" },
      Object.keys(run.measures).length
        ? element("button", { type: "button", id: "csv-curve", onclick: () => download(`input-${run.index[input]}-curves.csv`, curveCsv(run, input)) }, "Curves as CSV")
        : null,
      Object.values(run.measures).some((measure) => measure.histogram)
        ? element("button", { type: "button", id: "csv-histogram", onclick: () => download(`input-${run.index[input]}-histogram.csv`, histogramCsv(run, input)) }, "Histograms as CSV")
        : null),
    element("p", { class: "small" }, "Each promise is this certificate's own; an input picked out of many for being extreme is more likely to be one whose bound failed."),
  );
}

function entryFigures(run, name, measure, input) {
  const xs = RADII.map(Number);
  const lines = measure.methods.map((method, k) => ({
    colour: `colour-${k % 7}`,
    dash: DASHES[k % DASHES.length],
    values: xs.map((_, at) => lowerUnits(measure, method, input, at) / UNIT),
  }));
  if (measure.upper) {
    const k = measure.methods.indexOf(ownMethod(measure));
    lines[k] = { ...lines[k], low: lines[k].values, high: xs.map((_, at) => upperUnits(measure, input, at) / UNIT) };
  }
  const points = attackedPoints(run, name, input);
  const legend = element("p", { class: "legend" },
    measure.methods.map((method, k) => swatch(`colour-${k % 7} ${DASHES[k % DASHES.length]}`, method.title)),
    points.length ? swatch("colour-6", "attacked") : null);
  const figures = [element("figure", {},
    lineChart({
      label: `Certified average ${measure.title} of input ${run.index[input]} against the radius`,
      xs, lines, xLabel: RADIUS_LABEL, yLabel: `average ${measure.title}`, xMax: CHART_END,
      yMin: measure.low, yMax: measure.high, marker: xs[state.radius], traces: points.length ? [{ colour: "colour-6", points }] : [],
    }),
    legend,
    element("figcaption", {}, `How low the average ${measure.title} can be pushed${measure.upper ? ", and how high (shaded)" : ""}: certified, at every radius.`))];
  if (measure.histogram) figures.push(histogramFigure(run, measure, input));
  return figures;
}

function histogramFigure(run, measure, input) {
  const counts = measure.histogram.subarray(input * measure.bins, (input + 1) * measure.bins);
  const width = (measure.high - measure.low) / measure.bins;
  const most = Math.max(...counts);
  const total = counts.reduce((sum, each) => sum + each, 0);
  return element("figure", {},
    lineChart({
      label: `Histogram of the ${measure.title} of ${total} noisy copies of input ${run.index[input]}`,
      xs: [], xLabel: `${measure.title} of a noisy copy`, yLabel: "share of the copies", xMin: measure.low, xMax: measure.high, yMax: (1.04 * most) / total,
      yText: (tick) => `${tickText(100 * tick)}%`,
      bars: Array.from(counts, (count, k) => ({ from: measure.low + k * width, to: measure.low + (k + 1) * width, value: count / total })),
    }),
    element("figcaption", {}, `The ${measure.title} of ${total.toLocaleString("en-US")} noisy copies: what every bound is computed from.`));
}

function curveCsv(run, input) {
  const header = ["radius"], columns = [];
  for (const [name, measure] of Object.entries(run.measures)) {
    for (const method of measure.methods) {
      header.push(`${name}_lower_${method.name}`);
      columns.push((at) => lowerText(lowerUnits(measure, method, input, at), 4));
    }
    if (measure.upper) {
      header.push(`${name}_upper_${ownMethod(measure).name}`);
      columns.push((at) => upperText(upperUnits(measure, input, at), 4));
    }
  }
  return csvText(header, RADII.map((radius, at) => [radius, ...columns.map((each) => each(at))]));
}

function histogramCsv(run, input) {
  const rows = [];
  for (const [name, measure] of Object.entries(run.measures)) {
    for (let k = 0; measure.histogram && k < measure.bins; k++) {
      const edge = (each) => tickText(measure.low + (each * (measure.high - measure.low)) / measure.bins);
      rows.push([name, edge(k), edge(k + 1), measure.histogram[input * measure.bins + k]]);
    }
  }
  return csvText(["measure", "from", "to", "copies"], rows);
}

function listenToEntry() {
  const dialog = byId("entry");
  dialog.addEventListener("close", () => {
    const opener = document.querySelector(`#table button[data-input="${state.open.input}"]`);
    if (opener) opener.focus(); // the table may have been drawn anew meanwhile
    state.open = null;
    history.replaceState(null, "", "#inputs");
  });
  dialog.addEventListener("click", (event) => { if (event.target === dialog) dialog.close(); });
  window.addEventListener("hashchange", openNamed);
}
