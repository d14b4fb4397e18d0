// Runs as the page works with them.
const RIGHT = 0, WRONG = 1, ABSTAINED = 2;
const STATES = ["right", "wrong", "abstained"];

function loadRuns(facts, buffer) {
  return facts.runs.map((run, position) => {
    const of = (described) => (described ? column(buffer, described) : null);
    const measures = {};
    for (const [name, measure] of Object.entries(run.measures)) {
      measures[name] = {
        title: measure.title,
        low: measure.support[0],
        high: measure.support[1],
        lowest: measure.units[0], // in ten-thousandths: what codes count from
        methods: measure.methods.map((method) => ({ ...method, lower: of(method.lower) })),
        upper: of(measure.upper),
        histogram: of(measure.histogram),
        bins: measure.bins,
      };
    }
    return {
      ...run,
      position,
      index: of(run.index),
      label: of(run.label),
      predicted: of(run.predicted),
      state: of(run.state),
      measures,
      audit: run.audit && loadAudit(run.audit, buffer),
      labelRadius: run.labelRadius && { radius: of(run.labelRadius.radius), reach: of(run.labelRadius.reach) },
    };
  });
}

function className(run, number) {
  if (number < 0) return "none";
  return run.classes[number] === undefined ? `class ${number}` : run.classes[number];
}

// A class by its number and, if it has one, its name.
function classText(run, number) {
  return run.classes[number] === undefined ? className(run, number) : `${number} (${run.classes[number]})`;
}

// The measure to show of a run: the one that was asked for, or what the run has.
function measureOf(run, wanted) {
  return run.measures[wanted] ? wanted : Object.keys(run.measures)[0] || null;
}

function ownMethod(measure) {
  return measure.methods.find((method) => method.own) || measure.methods[0];
}

// A certified lower bound in ten-thousandths, rounded down (see fixed_point.py for the codes).
function lowerUnits(measure, method, input, at) {
  return (method.lower[input * RADII.length + at] >> 1) + measure.lowest;
}

function upperUnits(measure, input, at) {
  return measure.upper[input * RADII.length + at] + measure.lowest;
}

// How many radii of the axis, from 0 on, the bound is above the threshold at.
function reachAbove(measure, method, input, threshold) {
  const code = 2 * (threshold - measure.lowest);
  let reach = 0;
  while (reach < RADII.length && method.lower[input * RADII.length + reach] > code) reach++;
  return reach;
}

// The certificate in words, as print(certificate) says it, at any radius of the axis.
function words(run, input, at) {
  const named = run.classes[run.predicted[input]] === undefined ? "" : ` (${className(run, run.predicted[input])})`;
  const who = run.predicted[input] < 0 ? "No class is named" : `Class ${run.predicted[input]}${named}`;
  const said = [];
  let sure = true;
  for (const measure of Object.values(run.measures)) {
    const method = ownMethod(measure);
    sure = sure && method.guaranteed;
    said.push(`the average ${measure.title} stays at least ${lowerText(lowerUnits(measure, method, input, at), 3)}`);
    if (measure.upper) said[said.length - 1] += ` and at most ${upperText(upperUnits(measure, input, at), 3)}`;
  }
  let text = `${who}: `;
  if (said.length) text += `for every perturbation up to radius ${RADII[at]}${run.inNorm}, ${said.join(" and ")}`;
  if (run.labelRadius) {
    text += said.length ? "; " : "";
    text += run.labelRadius.reach[input]
      ? `its label cannot change within radius ${lowerText(run.labelRadius.radius[input], 3)}${run.inNorm}`
      : "its label is not certified";
  }
  text += ".";
  if (run.state[input] === ABSTAINED) text = `Abstains: nothing certifies the class as the winner here. ${text}`;
  if (run.kind === "imported" && run.method) return `${text} This is what the imported log says (${run.method}).`;
  if (run.kind === "imported") return `${text} This is what the imported log says; by which band, and how it was rounded, it does not.`;
  const made = `n = ${run.n.toLocaleString("en-US")} noisy copies, ${run.noise}, ${run.method}${run.grid[run.grid.length > 1 ? input : 0] ?? ""}`;
  if (!sure) return `${text} These are estimates, NOT a certificate (${made}).`;
  return `${text} All of it holds with probability at least ${run.sure} (${made}).`;
}
