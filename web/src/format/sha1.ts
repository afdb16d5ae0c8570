// SHA-1, which ACLs of the scheme digest are made of. Browsers have it only where the page came by
// https or from this very machine.

const BLOCK = 64;

function rotate(word: number, by: number): number {
  return (word << by) | (word >>> (32 - by));
}

/** The message, a one, zeros, and its length in bits. */
function padded(message: Uint8Array): DataView {
  const length = Math.ceil((message.length + 9) / BLOCK) * BLOCK;
  const bytes = new Uint8Array(length);
  bytes.set(message);
  bytes[message.length] = 0x80;
  const view = new DataView(bytes.buffer);
  view.setUint32(length - 8, Math.floor(message.length / 0x20000000));
  view.setUint32(length - 4, message.length << 3);
  return view;
}

function schedule(view: DataView, from: number): number[] {
  const words: number[] = [];
  for (let at = 0; at < 16; at += 1) {
    words.push(view.getInt32(from + at * 4));
  }
  for (let at = 16; at < 80; at += 1) {
    const [a = 0, b = 0, c = 0, d = 0] = [3, 8, 14, 16].map((back) => words[at - back]);
    words.push(rotate(a ^ b ^ c ^ d, 1));
  }
  return words;
}

/** What one of the four rounds does with three of the words. */
function mix(round: number, b: number, c: number, d: number): number {
  switch (round) {
    case 0:
      return ((b & c) | (~b & d)) + 0x5a827999;
    case 1:
      return (b ^ c ^ d) + 0x6ed9eba1;
    case 2:
      return ((b & c) | (b & d) | (c & d)) + 0x8f1bbcdc;
    default:
      return (b ^ c ^ d) + 0xca62c1d6;
  }
}

export function sha1(message: Uint8Array): Uint8Array {
  const view = padded(message);
  const state = [0x67452301, 0xefcdab89 | 0, 0x98badcfe | 0, 0x10325476, 0xc3d2e1f0 | 0];
  for (let from = 0; from < view.byteLength; from += BLOCK) {
    let [a = 0, b = 0, c = 0, d = 0, e = 0] = state;
    schedule(view, from).forEach((word, at) => {
      const next = (rotate(a, 5) + mix(Math.floor(at / 20), b, c, d) + e + word) | 0;
      [a, b, c, d, e] = [next, a, rotate(b, 30), c, d];
    });
    [a, b, c, d, e].forEach((word, at) => {
      state[at] = ((state[at] ?? 0) + word) | 0;
    });
  }
  const hash = new DataView(new ArrayBuffer(20));
  state.forEach((word, at) => {
    hash.setInt32(at * 4, word);
  });
  return new Uint8Array(hash.buffer);
}
