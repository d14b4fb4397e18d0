// From the numbers in the file to the page.
const PHONE = matchMedia("(max-width: 640px)"); // the same width as in page.css
let RADII, CHART_END, RADIUS_LABEL, MEASURES, RUNS, INTERVALS, LEVEL_TEXT, state;

function changed() {
  drawOverview();
  drawAudit();
  drawTools();
  state.listed = listed();
  drawScatter(state.listed);
  drawTable();
  if (state.open) drawEntry();
}

function listenToTheme() {
  const button = byId("theme"), themes = ["auto", "light", "dark"];
  let theme = "auto";
  const apply = () => {
    if (theme === "auto") delete document.documentElement.dataset.theme;
    else document.documentElement.dataset.theme = theme;
    button.textContent = `Theme: ${theme}`;
  };
  try {
    theme = localStorage.getItem("theme") || theme;
  } catch { /* a browser that keeps nothing begins with auto each time */ }
  apply();
  button.addEventListener("click", () => {
    theme = themes[(themes.indexOf(theme) + 1) % themes.length];
    apply();
    drawScatter(state.listed);
    try {
      localStorage.setItem("theme", theme);
    } catch { /* then it holds until the report is closed */ }
  });
  matchMedia("(prefers-color-scheme: dark)").addEventListener("change", () => drawScatter(state.listed));
}

function drawFacts() {
  byId("facts").replaceChildren(...RUNS.map((run) => element("details", { open: RUNS.length === 1 },
    element("summary", {}, run.name),
    run.knownRadii ? element("p", {}, `Known at the radii ${run.knownRadii.join(", ")}; in between, the value of the next larger one is shown, and beyond the last, nothing.`) : null,
    element("dl", {}, run.facts.flatMap(([name, value]) => [element("dt", {}, name), element("dd", {}, value)])))));
}

async function main() {
  const facts = JSON.parse(byId("document").textContent);
  const buffer = await unpack(byId("columns").textContent.trim());
  RADII = facts.radii;
  CHART_END = facts.chartEnd; // radii far beyond it are there for the slider and the tables
  RADIUS_LABEL = `radius of the perturbation (${facts.norms.map(symbols).join(" or ")})`;
  MEASURES = new Map(facts.measures.map((each) => [each.name, each]));
  LEVEL_TEXT = `${Math.round(100 * Number(facts.intervals.level))}%`;
  INTERVALS = {};
  for (const [n, ends] of Object.entries(facts.intervals.of)) INTERVALS[n] = { low: column(buffer, ends.low), high: column(buffer, ends.high) };
  RUNS = loadRuns(facts, buffer);
  state = {
    measure: facts.measures[0].name,
    thresholds: Object.fromEntries(facts.measures.map(({ name, thresholds }) => [name, thresholds[0]])),
    radius: facts.start.radius,
    shown: new Map(),
    run: 0,
    sort: { by: "index", down: false },
    filter: { state: "", class: "", search: "" },
    page: 0,
    listed: [],
    open: null,
  };
  if (measureOf(RUNS[0], state.measure)) state.sort.by = "at-radius";
  const names = RUNS.map((run) => run.name).join(", ");
  byId("title").textContent = RUNS.length > 1 ? `${RUNS.length} runs compared` : names;
  byId("subtitle").textContent = RUNS.length > 1 ? names : subtitle(RUNS[0]);
  byId("version").textContent = facts.version;
  for (const each of document.querySelectorAll(".norm")) each.textContent = facts.norms.map(symbols).join(" or ");
  for (const each of document.querySelectorAll(".level")) each.textContent = LEVEL_TEXT;
  listenToControls();
  listenToTable();
  listenToScatter();
  listenToEntry();
  listenToTheme();
  PHONE.addEventListener("change", changed);
  byId("csv-accuracy").addEventListener("click", () => download("certified-accuracy.csv", accuracyCsv(seriesOf(state.measure), state.measure, state.thresholds[state.measure])));
  byId("csv-inputs").addEventListener("click", () => download("inputs.csv", inputsCsv()));
  byId("csv-bounds").addEventListener("click", () => download("bounds.csv", boundsCsv(RUNS[state.run])));
  drawFacts();
  changed();
  openNamed();
  document.documentElement.dataset.ready = "yes";
}

function subtitle(run) {
  const known = Object.fromEntries(run.facts);
  const said = [`${run.inputs.toLocaleString("en-US")} inputs`, known.data ? `data: ${known.data}` : known.log, known.model ? `model: ${known.model}` : null];
  if (run.noise) said.push(symbols(run.noise));
  if (run.n) said.push(`n = ${run.n.toLocaleString("en-US")}`);
  if (run.sure) said.push(`each certificate holds with probability at least ${run.sure}`);
  return said.filter(Boolean).join(" · ");
}

main().catch((error) => {
  const box = byId("problem");
  box.hidden = false;
  box.textContent = typeof DecompressionStream === "undefined"
    ? "This browser is too old to unpack the report; any browser of 2023 or later can."
    : `The report could not be shown: ${error.message}. The file may be cut off; make it again with 'holdfast report'.`;
  console.error(error);
});
