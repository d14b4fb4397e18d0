// From an image file to what is sent: as it is where that is possible, else resized and flattened, and said to be.

import { asArray, Refused } from "./client.js";

const SENT_AS_THEY_ARE = ["image/png", "image/jpeg"];
const OPAQUE = 255;

// {body, type, note} for a model of this shape.
export async function readImage(file, [channels, height, width]) {
  if (/\.npy$/i.test(file.name)) return { body: file, type: "application/x-npy", note: "numbers, taken as they are." };
  let bitmap;
  try {
    bitmap = await createImageBitmap(file);
  } catch {
    throw new Refused(400, "not an image that this browser can read. Expected PNG, JPEG, an array (.npy), or an exported certificate (.json).");
  }
  const { pixels, transparent } = fit(bitmap, width, height);
  const resized = bitmap.width !== width || bitmap.height !== height;
  const changes = [
    bitmap.width * height !== bitmap.height * width && "cut to its middle",
    resized && `resized from ${bitmap.width} × ${bitmap.height} to ${width} × ${height}`,
    transparent && "transparent parts put on white",
    channels === 1 && coloured(pixels) && "colour turned to grey",
  ].filter(Boolean);
  const note = changes.length
    ? `${changes.join(", ")}. The certificate is about the image as shown here.`
    : `as it is: ${width} × ${height} pixels.`;
  if (!resized && !transparent && SENT_AS_THEY_ARE.includes(file.type)) return { body: file, type: file.type, note };
  return { body: asArray(pixels, channels, height, width), type: "application/x-npy", note };
}

// The middle of an image at the model's size, and whether something shone through it, which is white now.
function fit(bitmap, width, height) {
  const target = document.createElement("canvas");
  target.width = width;
  target.height = height;
  const context = target.getContext("2d", { willReadFrequently: true });
  const scale = Math.min(bitmap.width / width, bitmap.height / height);
  const wide = width * scale, tall = height * scale;
  context.imageSmoothingQuality = "high";
  context.drawImage(bitmap, (bitmap.width - wide) / 2, (bitmap.height - tall) / 2, wide, tall, 0, 0, width, height);
  const pixels = () => context.getImageData(0, 0, width, height).data;
  const transparent = pixels().some((value, k) => k % 4 === 3 && value < OPAQUE);
  context.globalCompositeOperation = "destination-over";
  context.fillStyle = "#fff";
  context.fillRect(0, 0, width, height);
  return { pixels: pixels(), transparent };
}

function coloured(pixels) {
  for (let k = 0; k < pixels.length; k += 4) {
    if (pixels[k] !== pixels[k + 1] || pixels[k] !== pixels[k + 2]) return true;
  }
  return false;
}
