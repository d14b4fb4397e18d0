// Numbers and sentences. Lower bounds are cut off, upper bounds are rounded up: the decimal text is what gets cut, as in Python.

export function floorDecimals(value, decimals) {
  if (value < 0) return negative(ceilDecimals(-value, decimals));
  const [whole, part] = digits(value, decimals);
  return decimals ? `${whole}.${part.slice(0, decimals)}` : whole;
}

export function ceilDecimals(value, decimals) {
  if (value < 0) return negative(floorDecimals(-value, decimals));
  const [whole, part] = digits(value, decimals);
  if (!/[1-9]/.test(part.slice(decimals))) return floorDecimals(value, decimals);
  const next = (BigInt(whole + part.slice(0, decimals)) + 1n).toString().padStart(decimals + 1, "0");
  return decimals ? `${next.slice(0, -decimals)}.${next.slice(-decimals)}` : next;
}

const negative = (text) => (/[1-9]/.test(text) ? `-${text}` : text);

function digits(value, decimals) {
  // Below a millionth JavaScript writes exponents; no bound shown here is that fine.
  const text = value > 0 && value < 1e-6 ? `0.${"0".repeat(decimals)}1` : String(value);
  const [whole, part = ""] = text.split(".");
  return [whole, part.padEnd(decimals, "0")];
}

export function trimmed(value, decimals) {
  return floorDecimals(value, decimals).replace(/\.?0+$/, "") || "0";
}

export function grouped(count) {
  return count.toLocaleString("en-US");
}

// A threshold of a slider, with as many decimals as its neighbours have.
export function thresholdText(measure, at) {
  const decimals = Math.max(...measure.at_least.map((each) => (String(each).split(".")[1] || "").length));
  return measure.at_least[at].toFixed(decimals);
}

// A class by its number and, if it has one, its name.
export function classText(number, labels) {
  return labels[number] ? `class ${number} (${labels[number]})` : `class ${number}`;
}

// The same at the beginning of a sentence, in parts.
export function classParts(number, labels) {
  return labels[number] ? [`Class ${number} (`, ["em", labels[number]], ")"] : [["em", `Class ${number}`]];
}

// Names of noises and norms, as formulas have them.
export function symbols(text) {
  return text.replace("sigma", "σ").replace("l1", "ℓ₁").replace("l2", "ℓ₂");
}

// What the network takes.
export function shapeText(shape) {
  const [channels, height, width] = shape;
  return shape.length === 3 ? `${width} × ${height} pixels${channels === 1 ? " in grey" : ""}` : `arrays of shape ${shape.join(" × ")}`;
}

// Parts of a sentence: plain strings, ["em", text] and ["strong", text]. A measure has its curve; ``who`` are the parts of the class.
export function sentence(view, measure, k, who) {
  const radius = trimmed(view.radii[k], 4);
  const [low, high] = measure.support, bound = measure.curve.lower[k];
  const what = `the average ${measure.title}`;
  if (bound <= low + 0.0005 * (high - low)) {
    return [...who, ": within radius ", ["strong", radius], ` nothing is promised: an attacker who may go that far might push ${what} down to ${low}.`];
  }
  const where = k === 0 ? [`: at the image itself, ${what} is not below `] : [": within radius ", ["strong", radius], ` nobody can push ${what} below `];
  return [...who, ...where, ["strong", floorDecimals(bound, 3)], "."];
}

export function answer(view, measure, k, at) {
  const asked = thresholdText(measure, at), threshold = measure.at_least[at];
  const { curve } = measure;
  const reach = curve.radius ? curve.radius[at] : reachOf(view.radii, curve, threshold);
  if (curve.lower[k] >= threshold) {
    return { yes: true, text: `Yes: at least ${asked} remains here, and up to radius ${floorDecimals(reach, 3)}.` };
  }
  if (curve.lower[0] >= threshold) {
    return { yes: false, text: `No promise of ${asked} at this radius: it holds up to radius ${floorDecimals(reach, 3)}.` };
  }
  return { yes: false, text: `No promise of ${asked} at any radius, not even at the image itself.` };
}

function reachOf(radii, curve, threshold) {
  let best = 0;
  curve.lower.forEach((bound, k) => { if (bound >= threshold) best = radii[k]; });
  return best;
}

export function surely(view, measure, k) {
  const { upper: bounds } = measure.curve;
  const upper = bounds ? ` Nor can anybody push it above ${ceilDecimals(bounds[k], 3)}.` : "";
  const label = view.label_radius > 0 ? ` The label itself (the majority vote) cannot change within radius ${floorDecimals(view.label_radius, 3)}.` : "";
  const looks = view.share < 1 ? ", together with every other look" : "";
  return `True with probability at least ${view.sure}${looks}, from ${grouped(view.n)} noisy copies.${upper}${label}`;
}

// Who chose the noise: whoever may choose among several can keep the most pleasant.
const SEEDING = {
  service: "The same image gets the same noise each time, so asking the same again is not choosing.",
  fresh: "The noise was drawn anew for this answer: keeping the best of several would be choosing.",
  caller: "Whoever made this chose the noise: it convinces nobody else.",
};

export function seeding(seededBy) {
  return SEEDING[seededBy] ? ` ${SEEDING[seededBy]}` : "";
}

// What a certificate from a file cannot show by itself.
export function hearsay(view) {
  const chosen = view.seeded_by === "service" ? "" : seeding(view.seeded_by);
  return ` But that these counts came from the model is the file's own word.${chosen}`;
}
