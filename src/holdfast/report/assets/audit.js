// What attacks found beside the certificates: the band between the two, and the attacked image of an input.
function loadAudit(audit, buffer) {
  const of = (described) => column(buffer, described);
  const each = (columns) => Object.fromEntries(Object.entries(columns).map(([name, described]) => [name, of(described)]));
  return { ...audit, index: of(audit.index), pictured: of(audit.pictured), attacked: each(audit.attacked), upper: each(audit.upper) };
}

// The last attack within a radius of the axis: where it stands among the audit's radii, or -1.
function attackWithin(audit, at) {
  let found = -1;
  audit.radii.forEach((radius, k) => { if (Number(radius) <= Number(RADII[at])) found = k; });
  return found;
}

function attackedUnits(run, name, columns, input, k) {
  const row = run.audit.index.indexOf(input);
  return row < 0 || !columns[name] ? null : columns[name][row * run.audit.radii.length + k] + run.measures[name].lowest;
}

// In words, what an attack within the radius did to an input; null if there was none.
function attackWords(run, input, at) {
  const k = run.audit ? attackWithin(run.audit, at) : -1;
  if (k < 0 || run.audit.index.indexOf(input) < 0) return null;
  const said = Object.entries(run.measures).map(([name, measure]) => {
    const found = attackedUnits(run, name, run.audit.attacked, input, k);
    return found === null ? null : `the average ${measure.title} down to ${upperText(found, 3)} (at most ${upperText(attackedUnits(run, name, run.audit.upper, input, k), 3)}; certified at least ${lowerText(lowerUnits(measure, ownMethod(measure), input, RADII.indexOf(run.audit.radii[k])), 3)})`;
  }).filter(Boolean);
  return `An attack within radius ${run.audit.radii[k]}${run.inNorm} brought ${said.join(" and ")}.`;
}

function attackedPicture(run, input, at, size) {
  const k = run.audit && run.audit.pictures ? attackWithin(run.audit, at) : -1;
  const place = k < 0 ? -1 : run.audit.pictured.indexOf(input);
  if (place < 0) return null;
  const radius = run.audit.radii[k];
  return element("figure", { id: "attacked" },
    tile(run.audit.pictures, place * run.audit.radii.length + k, size, `input ${run.index[input]}, attacked within radius ${radius}`),
    element("figcaption", {}, `this is what ${radius} looks like`));
}

// An input's attacked averages, as points of its chart.
function attackedPoints(run, name, input) {
  if (!run.audit || run.audit.index.indexOf(input) < 0 || !run.audit.attacked[name]) return [];
  return run.audit.radii.map((radius, k) => [Number(radius), attackedUnits(run, name, run.audit.attacked, input, k) / UNIT]);
}

function drawAudit() {
  const audited = RUNS.filter((run) => run.audit);
  byId("audit").hidden = !audited.length;
  if (!audited.length) return;
  const name = state.measure === "label" ? measureOf(audited[0], null) : state.measure;
  const shown = audited.filter((run) => run.audit.attacked[name]);
  byId("audit-charts").replaceChildren(...shown.map((run) => auditFigure(run, name)));
  const head = ["radius", "inputs", "clean", "certified", "attacked", "violations"];
  const several = RUNS.length > 1;
  const table = byId("audit-table");
  table.tHead.replaceChildren(element("tr", {}, several ? element("th", { scope: "col" }, "run") : null,
    head.map((text) => element("th", { scope: "col", class: "number" }, text))));
  table.tBodies[0].replaceChildren(...shown.flatMap((run) => rowsOf(run, name).map((row) => element("tr", {},
    several ? element("td", {}, run.name) : null,
    [String(row.radius), row.inputs.toLocaleString("en-US"), row.clean.toFixed(3), lowerText(Math.floor(row.certified * UNIT), 3),
      upperText(Math.ceil(row.attacked * UNIT), 3), String(row.violations)].map((text) => element("td", { class: "number" }, text))))));
  byId("audit-notes").replaceChildren(...audited.flatMap((run) => [
    element("p", { class: "small" }, `${several ? `${run.name}: ` : ""}${run.audit.violations.length} violations; ${run.audit.inputs.toLocaleString("en-US")} inputs, each attacked at ${run.audit.radii.length} radii and then measured on ${run.audit.n.toLocaleString("en-US")} fresh noisy copies. ${run.audit.byChance}`),
    ...run.audit.violations.map((text) => element("p", { class: "notice" }, `Violation: ${text}.`)),
  ]));
}

function rowsOf(run, name) {
  return run.audit.averages.filter((row) => row.measure === name);
}

function auditFigure(run, name) {
  const measure = run.measures[name], rows = rowsOf(run, name);
  const trace = (field) => rows.map((row) => [row.radius, row[field]]);
  const last = rows[rows.length - 1].radius;
  return element("figure", {},
    lineChart({
      label: `Certified and attacked average ${measure.title} against the radius${RUNS.length > 1 ? `, ${run.name}` : ""}`,
      xs: [], xLabel: RADIUS_LABEL, yLabel: `average ${measure.title}`, xMax: last * 1.05 || 1, yMin: measure.low, yMax: measure.high,
      traces: [{ colour: "colour-1", points: trace("attacked") }, { colour: "colour-0", points: trace("certified") }],
      level: rows[0].clean,
    }),
    element("p", { class: "legend" }, swatch("colour-1", "attacked"), swatch("colour-0", "certified"), swatch("dashed colour-6", "clean")),
    element("figcaption", {}, `${RUNS.length > 1 ? `${run.name}: the` : "The"} average ${measure.title}, mean over the attacked inputs: certified from below, attacked from above. The least average within the radius lies between.`));
}
