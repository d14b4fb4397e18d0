// Tables as files. Numbers are written as they are; text is quoted, whatever the reader separates cells by, and text that a spreadsheet would run is defused.
function csvCell(value) {
  if (typeof value === "number") return String(value);
  let text = String(value);
  if (/^[=+\-@\t\r]/.test(text) && !/^-?\d+(\.\d+)?$/.test(text)) text = `'${text}`;
  return /[",;\t\n\r]/.test(text) ? `"${text.replaceAll('"', '""')}"` : text;
}

function csvText(header, rows) {
  const lines = [header.map(csvCell).join(",")];
  for (const row of rows) lines.push(row.map(csvCell).join(","));
  return lines.join("\r\n") + "\r\n";
}

function download(name, text) {
  const address = URL.createObjectURL(new Blob([text], { type: "text/csv;charset=utf-8" }));
  const link = element("a", { href: address, download: name });
  document.body.append(link);
  link.click();
  link.remove();
  setTimeout(() => URL.revokeObjectURL(address), 10000);
}

function accuracyCsv(allSeries, measureName, threshold) {
  const rows = [];
  for (const series of allSeries) {
    const { run, measure, method } = series;
    const thresholds = new Set([threshold, ...MEASURES.get(measureName).thresholds]);
    const { first, step, count } = measure ? thresholdSteps(measureName) : { count: 0 };
    for (let k = 0; k < count; k += 5) thresholds.add(first + k * step);
    for (const t of measure ? [...thresholds].sort((a, b) => a - b) : [null]) {
      const counts = countsByRadius(series, t);
      counts.forEach((count, at) => {
        const { low, high } = interval(run, count);
        rows.push([
          run.name, measureName, method.name, method.guaranteed ? "yes" : "no", t === null ? "" : shortText(t), RADII[at],
          count, run.inputs, lowerText(Math.floor((UNIT * count) / run.inputs), 4), lowerText(low, 4), upperText(high, 4),
        ]);
      });
    }
  }
  const header = ["run", "measure", "method", "certified", "threshold", "radius", "count", "inputs", "share_rounded_down"];
  return csvText([...header, "interval_low", "interval_high"], rows);
}

function boundsCsv(run) {
  const rows = [];
  for (const [name, measure] of Object.entries(run.measures)) {
    for (const method of measure.methods) {
      for (let input = 0; input < run.inputs; input++) {
        const row = [run.name, run.index[input], name, method.name, "lower"];
        RADII.forEach((_, at) => row.push(lowerText(lowerUnits(measure, method, input, at), 4)));
        rows.push(row);
        if (!measure.upper || !method.own) continue;
        rows.push([...row.slice(0, 4), "upper", ...RADII.map((_, at) => upperText(upperUnits(measure, input, at), 4))]);
      }
    }
  }
  return csvText(["run", "index", "measure", "method", "side", ...RADII.map((radius) => `at_${radius}`)], rows);
}
