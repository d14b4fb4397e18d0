// Certified accuracy: how many inputs are right and certified, counted from the stored bounds.
function countsByRadius(series, threshold) {
  const counts = new Int32Array(RADII.length);
  const { run, measure, method } = series;
  for (let input = 0; input < run.inputs; input++) {
    if (run.state[input] !== RIGHT) continue;
    const reach = measure ? reachAbove(measure, method, input, threshold) : run.labelRadius.reach[input];
    for (let at = 0; at < reach; at++) counts[at]++;
  }
  return counts;
}

// The same at one radius, for every threshold of a list in steps.
function countsByThreshold(series, at, { first, step, count }) {
  const { run, measure, method } = series;
  const counts = new Int32Array(count);
  for (let input = 0; input < run.inputs; input++) {
    if (run.state[input] !== RIGHT) continue;
    // The code is above 2 t exactly for the thresholds t below half of it.
    const above = Math.ceil((method.lower[input * RADII.length + at] / 2 + measure.lowest - first) / step);
    for (let k = 0; k < above && k < count; k++) counts[k]++;
  }
  return counts;
}

// Both ends of the share's confidence interval, in ten-thousandths (Clopper-Pearson, computed when the page was made).
function interval(run, count) {
  return { low: INTERVALS[run.inputs].low[count], high: INTERVALS[run.inputs].high[count] };
}
