// Names of writes. Browsers have `crypto.randomUUID` only where the page came by https or from this very
// machine; a replica in a closed network is often reached by neither.

const BYTES = 16;

/** A random UUID: a write with it may be asked again without being done twice. */
export function requestKey(): string {
  const bytes = crypto.getRandomValues(new Uint8Array(BYTES));
  bytes[6] = ((bytes[6] ?? 0) & 0x0f) | 0x40; // Version 4 ...
  bytes[8] = ((bytes[8] ?? 0) & 0x3f) | 0x80; // ... of the usual variant.
  const hex = Array.from(bytes, (byte) => byte.toString(16).padStart(2, '0')).join('');
  return hex.replace(/^(.{8})(.{4})(.{4})(.{4})/, '$1-$2-$3-$4-');
}
