// The numbers of a report, unpacked: base64, zlib, then columns of whole numbers (see packing.py).
const TYPES = { u1: Uint8Array, u2: Uint16Array, i4: Int32Array };

async function unpack(text) {
  const packed = Uint8Array.fromBase64 ? Uint8Array.fromBase64(text) : bytesOf(atob(text));
  const stream = new Blob([packed]).stream().pipeThrough(new DecompressionStream("deflate"));
  return new Response(stream).arrayBuffer();
}

function bytesOf(binary) {
  const bytes = new Uint8Array(binary.length);
  for (let k = 0; k < binary.length; k++) bytes[k] = binary.charCodeAt(k);
  return bytes;
}

function column(buffer, described) {
  const values = new TYPES[described.type](buffer, described.at, described.count);
  if (described.row) {
    for (let k = 0; k < values.length; k++) {
      if (k % described.row) values[k] += values[k - 1]; // wraps around, as the differences did
    }
  }
  return values;
}
