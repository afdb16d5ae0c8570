// zxids are 64 bits and stay text: "0x500000012" is the epoch 5 and the counter 0x12.

/** Whether `a` is newer than `b`. Both without leading zeros, as the server writes them. */
export function isNewer(a: string, b: string): boolean {
  return a.length === b.length ? a > b : a.length > b.length;
}

export function newest(a: string, b: string): string {
  return isNewer(a, b) ? a : b;
}

export function epochOf(zxid: string): number {
  return Number(BigInt(zxid) >> 32n);
}

export function counterOf(zxid: string): number {
  return Number(BigInt(zxid) & 0xffffffffn);
}
