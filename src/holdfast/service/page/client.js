// Talking to the service: requests with the key, streams of JSON lines, images as arrays.

let key = null;

export class Refused extends Error {
  constructor(status, reason) {
    super(reason);
    this.status = status;
  }
}

export function useKey(given) {
  key = given;
}

export async function ask(path, options = {}) {
  const headers = { ...(options.headers || {}), ...(key ? { Authorization: `Bearer ${key}` } : {}) };
  const response = await fetch(path, { ...options, headers });
  if (response.ok) return response;
  let reason = `the service answered ${response.status}`;
  try {
    reason = (await response.json()).error || reason;
  } catch { /* not JSON: the status says it */ }
  throw new Refused(response.status, reason);
}

// Every event of a stream, as it comes.
export async function* events(path, body, type, signal) {
  const response = await ask(path, { method: "POST", body, headers: { "Content-Type": type }, signal });
  const reader = response.body.pipeThrough(new TextDecoderStream()).getReader();
  let rest = "";
  for (;;) {
    const { done, value } = await reader.read();
    if (done) return;
    const lines = (rest + value).split("\n");
    rest = lines.pop();
    for (const text of lines) yield JSON.parse(text);
  }
}

// Pixels of a canvas as an array file of numbers in [0, 1].
export function asArray(pixels, channels, height, width) {
  const shape = `(${channels}, ${height}, ${width})`;
  const words = `{'descr': '<f4', 'fortran_order': False, 'shape': ${shape}, }`;
  const length = Math.ceil((10 + words.length + 1) / 64) * 64 - 10;
  const numbers = new Float32Array(channels * height * width);
  for (let k = 0; k < height * width; k += 1) {
    const [red, green, blue] = pixels.slice(4 * k, 4 * k + 3);
    const grey = Math.round(0.299 * red + 0.587 * green + 0.114 * blue);
    const values = channels === 1 ? [grey] : [red, green, blue];
    values.forEach((value, c) => { numbers[c * height * width + k] = value / 255; });
  }
  const file = new Uint8Array(10 + length + numbers.byteLength);
  const header = `\x93NUMPY\x01\x00${String.fromCharCode(length & 255, length >> 8)}${words.padEnd(length - 1)}\n`;
  for (let k = 0; k < header.length; k += 1) file[k] = header.charCodeAt(k);
  file.set(new Uint8Array(numbers.buffer), 10 + length);
  return file;
}
