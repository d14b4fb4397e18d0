// Bounds are whole numbers of ten-thousandths. Every number that is shown is cut here, by whole-number arithmetic:
// lower bounds towards minus infinity, upper bounds towards plus infinity.
const UNIT = 10000;
const DIGITS = 4;

function lowerText(units, decimals) {
  return decimalText(Math.floor(units / 10 ** (DIGITS - decimals)), decimals);
}

function upperText(units, decimals) {
  return decimalText(Math.ceil(units / 10 ** (DIGITS - decimals)), decimals);
}

// A whole number of 10^-decimals as text.
function decimalText(whole, decimals) {
  const digits = String(Math.abs(whole)).padStart(decimals + 1, "0");
  const cut = digits.length - decimals;
  return (whole < 0 ? "-" : "") + digits.slice(0, cut) + (decimals ? "." + digits.slice(cut) : "");
}

// Without the zeros at the end: 0.7000 as 0.7.
function shortText(units) {
  return lowerText(units, DIGITS).replace(/\.?0+$/, "");
}

function countOf(count, total) {
  return `${count.toLocaleString("en-US")} of ${total.toLocaleString("en-US")}`;
}

// A share of a sample, such as 68 of 100, in percent; rounded down.
function percentOf(count, total) {
  return decimalText(Math.floor((1000 * count) / total), 1) + "%";
}

function percentDown(units) {
  return decimalText(Math.floor(units / 10), 1) + "%";
}

function percentUp(units) {
  return decimalText(Math.ceil(units / 10), 1) + "%";
}
