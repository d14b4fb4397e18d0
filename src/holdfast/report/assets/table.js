// The table of inputs: sorted, filtered, in pages.
const PER_PAGE = 25;

// What can be shown and sorted by; each value is a number, larger meaning more.
function tableColumns(run) {
  const name = measureOf(run, state.measure);
  const columns = [
    { id: "index", title: "input", value: (input) => run.index[input] },
    { id: "label", title: "label", value: (input) => run.label[input], text: (input) => classText(run, run.label[input]), csv: (input) => className(run, run.label[input]) },
    { id: "predicted", title: "answer", value: (input) => run.predicted[input], text: (input) => classText(run, run.predicted[input]), csv: (input) => className(run, run.predicted[input]) },
    { id: "state", title: "right?", value: (input) => run.state[input], text: (input) => STATES[run.state[input]] },
  ];
  if (name) {
    const measure = run.measures[name], method = ownMethod(measure), threshold = state.thresholds[name];
    const bound = (at) => (input) => lowerUnits(measure, method, input, at);
    columns.push(
      { id: "at-input", title: `${measure.title} at the input`, value: bound(0), text: (input) => lowerText(bound(0)(input), 3), number: true },
      { id: "at-radius", title: `${measure.title} within ${RADII[state.radius]}`, value: bound(state.radius), text: (input) => lowerText(bound(state.radius)(input), 3), number: true },
      { id: "radius", title: `radius with ${measure.title} > ${shortText(threshold)}`,
        value: (input) => reachAbove(measure, method, input, threshold),
        text: (input) => reachText(reachAbove(measure, method, input, threshold)), number: true },
    );
  }
  if (run.labelRadius) {
    const text = (input) => (run.labelRadius.reach[input] ? lowerText(run.labelRadius.radius[input], 3) : "none");
    columns.push({ id: "label-radius", title: "radius of the label", value: (input) => run.labelRadius.radius[input] - (run.labelRadius.reach[input] ? 0 : 1), text, number: true });
  }
  if (name && run.labelRadius) {
    columns.push({ id: "gap", title: "gap", value: (input) => gap(run, name, input), text: (input) => lowerText(gap(run, name, input), 3), number: true,
      about: "how much further the label is certified than the confidence: the difference of the two radii" });
  }
  return columns;
}

// On a phone the rest is a swipe away; what the report is about is not.
function numbersFirst([input, ...others]) {
  return [input, ...others.filter((each) => each.number), ...others.filter((each) => !each.number)];
}

function reachText(reach) {
  return reach ? RADII[reach - 1] : "none";
}

function gap(run, name, input) {
  const measure = run.measures[name];
  const radius = radiusAbove(measure, ownMethod(measure), input, state.thresholds[name]);
  return run.labelRadius.radius[input] - Math.round(radius * UNIT);
}

function orders(run) {
  const name = measureOf(run, state.measure);
  const found = [{ id: "index", title: "as in the dataset", by: "index", down: false }];
  if (name) {
    const { title } = run.measures[name];
    found.push(
      { id: "fragile", title: `most fragile: lowest certified ${title} at the radius`, by: "at-radius", down: false },
      { id: "confident", title: `most confident: highest certified ${title} at the radius`, by: "at-radius", down: true },
    );
  }
  if (run.labelRadius) {
    found.push({ id: "near", title: "smallest radius of the label", by: "label-radius", down: false });
    if (name) found.push({ id: "gap", title: "biggest gap between confidence and radius", by: "gap", down: true });
  }
  return found;
}

// The inputs that pass the filters, in order.
function listed() {
  const run = RUNS[state.run];
  const kept = [];
  for (let input = 0; input < run.inputs; input++) {
    if (state.filter.state !== "" && run.state[input] !== Number(state.filter.state)) continue;
    if (state.filter.class !== "" && run.label[input] !== Number(state.filter.class) && run.predicted[input] !== Number(state.filter.class)) continue;
    if (state.filter.search !== "" && String(run.index[input]) !== state.filter.search) continue;
    kept.push(input);
  }
  const columns = tableColumns(run);
  const by = columns.find((each) => each.id === state.sort.by) || columns[0];
  const then = columns.find((each) => each.id === "at-input");
  const values = new Float64Array(run.inputs), ties = new Float64Array(run.inputs);
  for (const input of kept) {
    values[input] = by.value(input);
    ties[input] = then ? then.value(input) : 0;
  }
  const sign = state.sort.down ? -1 : 1;
  return kept.sort((a, b) => sign * (values[a] - values[b]) || sign * (ties[a] - ties[b]) || a - b);
}

function drawTable() {
  const run = RUNS[state.run];
  const inputs = state.listed;
  const columns = PHONE.matches ? numbersFirst(tableColumns(run)) : tableColumns(run);
  const pages = Math.max(1, Math.ceil(inputs.length / PER_PAGE));
  state.page = Math.min(state.page, pages - 1);
  const table = byId("table");
  table.tHead.replaceChildren(element("tr", {},
    run.pictures ? element("th", { scope: "col", class: "pictured" }, "picture") : null,
    columns.map((each) => heading(each))));
  const first = state.page * PER_PAGE;
  table.tBodies[0].replaceChildren(...inputs.slice(first, first + PER_PAGE).map((input) => row(run, columns, input)));
  byId("found").textContent = `${countOf(inputs.length, run.inputs)} inputs` + (inputs.length ? `, ${first + 1} to ${Math.min(first + PER_PAGE, inputs.length)} shown` : "");
  byId("page").textContent = `page ${state.page + 1} of ${pages}`;
  byId("previous").disabled = state.page === 0;
  byId("next").disabled = state.page >= pages - 1;
}

function heading(each) {
  const sorted = state.sort.by === each.id;
  const button = element("button", {
    type: "button",
    "data-column": each.id,
    title: each.about || null,
    onclick: () => {
      state.sort = { by: each.id, down: sorted ? !state.sort.down : Boolean(each.number) };
      state.page = 0;
      changed();
      document.querySelector(`#table button[data-column="${each.id}"]`).focus(); // the heading was drawn anew
    },
  }, each.title, element("span", { "aria-hidden": "true", class: "arrow" }, sorted ? (state.sort.down ? " ▼" : " ▲") : ""));
  const order = sorted ? (state.sort.down ? "descending" : "ascending") : "none";
  return element("th", { scope: "col", class: each.number ? "number" : null, "aria-sort": order }, button);
}

function row(run, columns, input) {
  const open = element("button", { type: "button", class: "link", "data-input": input, "aria-label": `open input ${run.index[input]}` }, String(run.index[input]));
  return element("tr", { onclick: () => openEntry(run.position, input), class: STATES[run.state[input]] },
    run.pictures ? element("td", {}, picture(run, input, 40)) : null,
    columns.map((each) => {
      if (each.id === "index") return element("td", {}, open);
      const mark = each.id === "state" ? [key(STATES[run.state[input]]), " "] : [];
      return element("td", { class: each.number ? "number" : null }, mark, each.text(input));
    }));
}

function picture(run, input, size) {
  return tile(run.pictures, input, size, `picture of input ${run.index[input]}`);
}

function tile({ sheets, across, width, height }, number, size, label) {
  const scale = size / Math.max(width, height);
  const place = number % (across * across);
  const box = element("span", { class: "picture", role: "img", "aria-label": label });
  Object.assign(box.style, {
    width: `${width * scale}px`,
    height: `${height * scale}px`,
    backgroundImage: `url("${sheets[Math.floor(number / (across * across))]}")`,
    backgroundSize: `${across * width * scale}px auto`,
    backgroundPosition: `-${(place % across) * width * scale}px -${Math.floor(place / across) * height * scale}px`,
    imageRendering: scale > 1.5 ? "pixelated" : "auto",
  });
  return box;
}

function inputsCsv() {
  const run = RUNS[state.run];
  const columns = tableColumns(run);
  const header = columns.map((each) => each.title);
  return csvText(["run", ...header, "label number", "answer number"], state.listed.map((input) => [
    run.name, ...columns.map((each) => (each.csv || each.text || each.value)(input)), run.label[input], run.predicted[input],
  ]));
}

function listenToTable() {
  const again = (change) => { change(); state.page = 0; changed(); };
  byId("run").append(...RUNS.map((run) => element("option", { value: run.position }, run.name)));
  byId("run-control").hidden = RUNS.length < 2;
  byId("run").addEventListener("change", (event) => again(() => {
    state.run = Number(event.target.value);
    state.filter.class = "";
  }));
  byId("order").addEventListener("change", (event) => again(() => {
    const order = orders(RUNS[state.run]).find((each) => each.id === event.target.value);
    if (order) state.sort = { by: order.by, down: order.down };
  }));
  byId("state").append(element("option", { value: "" }, "all"), ...STATES.map((name, k) => element("option", { value: k }, name)));
  byId("state").addEventListener("change", (event) => again(() => { state.filter.state = event.target.value; }));
  byId("class").addEventListener("change", (event) => again(() => { state.filter.class = event.target.value; }));
  byId("search").addEventListener("input", (event) => again(() => { state.filter.search = event.target.value.trim(); }));
  byId("previous").addEventListener("click", () => { state.page--; drawTable(); });
  byId("next").addEventListener("click", () => { state.page++; drawTable(); });
}

function drawTools() {
  const run = RUNS[state.run];
  const known = orders(run);
  const current = known.find((each) => each.by === state.sort.by && each.down === state.sort.down);
  byId("order").replaceChildren(
    ...known.map((each) => element("option", { value: each.id, selected: each === current }, each.title)),
    ...(current ? [] : [element("option", { value: "", selected: true }, "by the column chosen below")]));
  const numbers = [...new Set([...run.label, ...run.predicted])].filter((number) => number >= 0).sort((a, b) => a - b);
  byId("class").replaceChildren(element("option", { value: "" }, "all"),
    ...numbers.map((number) => element("option", { value: number, selected: String(number) === state.filter.class }, classText(run, number))));
}
