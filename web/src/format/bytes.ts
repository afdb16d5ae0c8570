// Sizes, and bytes as text, hex and base64. Bytes are never changed by being looked at.

const KIB = 1024;

export function byteSize(count: number): string {
  const units = ['B', 'KiB', 'MiB', 'GiB', 'TiB'];
  const at = count < KIB ? 0 : Math.min(Math.floor(Math.log2(count) / 10), units.length - 1);
  const value = count / KIB ** at;
  return `${at === 0 || value >= 100 ? Math.round(value) : value.toFixed(1)} ${units[at]}`;
}

export function fromBase64(text: string): Uint8Array<ArrayBuffer> {
  const binary = atob(text);
  const bytes = new Uint8Array(binary.length);
  for (let at = 0; at < binary.length; at += 1) {
    bytes[at] = binary.charCodeAt(at);
  }
  return bytes;
}

export function toBase64(bytes: Uint8Array): string {
  const parts: string[] = [];
  for (let at = 0; at < bytes.length; at += 0x6000) {
    parts.push(btoa(String.fromCharCode(...bytes.subarray(at, at + 0x6000))));
  }
  return parts.join('');
}

/** The text that these bytes are in UTF-8; undefined when they are none. */
export function asUtf8(bytes: Uint8Array): string | undefined {
  try {
    return new TextDecoder('utf-8', { fatal: true, ignoreBOM: true }).decode(bytes);
  } catch {
    return undefined;
  }
}

export function sameBytes(a: Uint8Array | null, b: Uint8Array | null): boolean {
  if (a === null || b === null) {
    return a === b;
  }
  return a.length === b.length && a.every((byte, at) => byte === b[at]);
}

/** The bytes that are written in hex, whatever space is between; undefined when it is none. */
export function fromHex(text: string): Uint8Array<ArrayBuffer> | undefined {
  const digits = text.replace(/\s+/g, '');
  if (digits.length % 2 !== 0 || /[^0-9a-fA-F]/.test(digits)) {
    return undefined;
  }
  const bytes = new Uint8Array(digits.length / 2);
  for (let at = 0; at < bytes.length; at += 1) {
    bytes[at] = Number.parseInt(digits.slice(at * 2, at * 2 + 2), 16);
  }
  return bytes;
}

/** Lines of hex as they are edited: no places, no ASCII. */
export function hexText(bytes: Uint8Array): string {
  const lines: string[] = [];
  for (let at = 0; at < bytes.length; at += HEX_ROW) {
    const row = bytes.subarray(at, at + HEX_ROW);
    lines.push(Array.from(row, (byte) => byte.toString(16).padStart(2, '0')).join(' '));
  }
  return lines.join('\n');
}

const BASE64_LINE = 76;

export function base64Text(bytes: Uint8Array): string {
  return toBase64(bytes).replace(RegExp(`.{${BASE64_LINE}}(?=.)`, 'g'), '$&\n');
}

/** The bytes that are written in base64, in how many lines ever; undefined when it is none. */
export function fromBase64Text(text: string): Uint8Array<ArrayBuffer> | undefined {
  const letters = text.replace(/\s+/g, '');
  return /^([A-Za-z0-9+/]{4})*([A-Za-z0-9+/]{2}==|[A-Za-z0-9+/]{3}=)?$/.test(letters)
    ? fromBase64(letters)
    : undefined;
}

export const HEX_ROW = 16;

/** One line of a hex view: place, bytes, what of them is ASCII. */
export function hexLine(bytes: Uint8Array, row: number): string {
  const part = bytes.subarray(row * HEX_ROW, (row + 1) * HEX_ROW);
  const cells = Array.from(part, (byte) => byte.toString(16).padStart(2, '0'));
  const hex = [cells.slice(0, 8).join(' '), cells.slice(8).join(' ')].join('  ').padEnd(48);
  const ascii = Array.from(part, (byte) =>
    byte >= 0x20 && byte < 0x7f ? String.fromCharCode(byte) : '·',
  ).join('');
  return `${(row * HEX_ROW).toString(16).padStart(6, '0')}  ${hex}  ${ascii}`;
}

export function isGzip(bytes: Uint8Array): boolean {
  return bytes[0] === 0x1f && bytes[1] === 0x8b;
}

/** What was compressed, as far as `max` bytes go; undefined when it is damaged. */
export async function gunzip(
  bytes: Uint8Array<ArrayBuffer>,
  max: number,
): Promise<Uint8Array<ArrayBuffer> | undefined> {
  const reader = new Blob([bytes])
    .stream()
    .pipeThrough(new DecompressionStream('gzip'))
    .getReader();
  const pieces: Uint8Array[] = [];
  let length = 0;
  try {
    while (length < max) {
      const { done, value } = await reader.read();
      if (done) {
        break;
      }
      pieces.push(value);
      length += value.length;
    }
    await reader.cancel();
  } catch {
    return undefined;
  }
  const all = new Uint8Array(length);
  let at = 0;
  for (const piece of pieces) {
    all.set(piece, at);
    at += piece.length;
  }
  return all.subarray(0, max);
}
