// Makes pictures smaller: pages have few colours, so one byte for each pixel is enough instead of
// four.

import { crc32, deflateSync, inflateSync } from 'node:zlib';

const SIGNATURE = Buffer.from([0x89, 0x50, 0x4e, 0x47, 0x0d, 0x0a, 0x1a, 0x0a]);
const COLOURS = 256;
const FULL_COLOUR = 2; // Three bytes a pixel; with alpha it is 6.
const INDEXED = 3;

function* chunksOf(png) {
  for (let at = SIGNATURE.length; at < png.length; ) {
    const length = png.readUInt32BE(at);
    yield {
      type: png.toString('latin1', at + 4, at + 8),
      data: png.subarray(at + 8, at + 8 + length),
    };
    at += length + 12;
  }
}

function chunk(type, data) {
  const body = Buffer.concat([Buffer.from(type, 'latin1'), data]);
  const out = Buffer.alloc(body.length + 8);
  out.writeUInt32BE(data.length, 0);
  body.copy(out, 4);
  out.writeUInt32BE(crc32(body), body.length + 4);
  return out;
}

/** The predictors of a line: left, above, above left. */
function predict(filter, a, b, c) {
  switch (filter) {
    case 1:
      return a;
    case 2:
      return b;
    case 3:
      return (a + b) >> 1;
    case 4: {
      const [pa, pb, pc] = [Math.abs(b - c), Math.abs(a - c), Math.abs(a + b - 2 * c)];
      return pa <= pb && pa <= pc ? a : pb <= pc ? b : c;
    }
    default:
      return 0;
  }
}

/** The bytes of the pixels, line by line. */
function pixelsOf(png) {
  const chunks = [...chunksOf(png)];
  const head = chunks[0].data;
  const [width, height, colour] = [head.readUInt32BE(0), head.readUInt32BE(4), head[9]];
  const size = colour === FULL_COLOUR ? 3 : 4;
  const raw = inflateSync(
    Buffer.concat(chunks.filter(({ type }) => type === 'IDAT').map(({ data }) => data)),
  );
  const row = width * size;
  const pixels = Buffer.alloc(row * height);
  for (let y = 0; y < height; y += 1) {
    const filter = raw[y * (row + 1)];
    for (let x = 0; x < row; x += 1) {
      const at = y * row + x;
      const left = x >= size ? pixels[at - size] : 0;
      const above = y > 0 ? pixels[at - row] : 0;
      const corner = x >= size && y > 0 ? pixels[at - row - size] : 0;
      pixels[at] = raw[y * (row + 1) + 1 + x] + predict(filter, left, above, corner);
    }
  }
  return { width, height, size, pixels };
}

/** The most frequent colours, and for each colour the nearest of these. */
function paletteOf({ size, pixels }) {
  const counts = new Map();
  for (let at = 0; at < pixels.length; at += size) {
    const colour = (pixels[at] << 16) | (pixels[at + 1] << 8) | pixels[at + 2];
    counts.set(colour, (counts.get(colour) ?? 0) + 1);
  }
  const palette = [...counts].sort((a, b) => b[1] - a[1] || a[0] - b[0]).slice(0, COLOURS);
  const colours = palette.map(([colour]) => colour);
  const index = new Map();
  for (const colour of counts.keys()) {
    index.set(colour, nearest(colours, colour));
  }
  return { colours, index };
}

function nearest(colours, wanted) {
  let best = 0;
  let least = Number.POSITIVE_INFINITY;
  colours.forEach((colour, at) => {
    const red = (colour >> 16) - (wanted >> 16);
    const green = ((colour >> 8) & 255) - ((wanted >> 8) & 255);
    const blue = (colour & 255) - (wanted & 255);
    const far = 2 * red * red + 4 * green * green + 3 * blue * blue; // Weighted like human vision.
    if (far < least) {
      least = far;
      best = at;
    }
  });
  return best;
}

/** The same picture with at most 256 colours. */
export function shrink(png) {
  const picture = pixelsOf(png);
  const { width, height, size, pixels } = picture;
  const { colours, index } = paletteOf(picture);
  const lines = Buffer.alloc((width + 1) * height);
  for (let y = 0; y < height; y += 1) {
    for (let x = 0; x < width; x += 1) {
      const at = (y * width + x) * size;
      const colour = (pixels[at] << 16) | (pixels[at + 1] << 8) | pixels[at + 2];
      lines[y * (width + 1) + 1 + x] = index.get(colour);
    }
  }
  const head = Buffer.alloc(13);
  head.writeUInt32BE(width, 0);
  head.writeUInt32BE(height, 4);
  head.set([8, INDEXED], 8);
  const palette = Buffer.from(colours.flatMap((one) => [one >> 16, (one >> 8) & 255, one & 255]));
  return Buffer.concat([
    SIGNATURE,
    chunk('IHDR', head),
    chunk('PLTE', palette),
    chunk('IDAT', deflateSync(lines, { level: 9 })),
    chunk('IEND', Buffer.alloc(0)),
  ]);
}
