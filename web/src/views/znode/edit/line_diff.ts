// Which lines differ between two texts: the shortest script of Myers' greedy algorithm, bounded. Beyond the
// bound everything between the common beginning and the common end is one difference.

const EDITS_MAX = 600; // Lines added and removed; the algorithm takes their square.

/** Lines `fromA` up to `toA` of one list are lines `fromB` up to `toB` of the other. */
export interface Range {
  fromA: number;
  toA: number;
  fromB: number;
  toB: number;
}

/** In order, and apart: between two of them is at least one line that both have. */
export function lineDiff(a: readonly string[], b: readonly string[]): Range[] {
  const shorter = Math.min(a.length, b.length);
  let head = 0;
  while (head < shorter && a[head] === b[head]) {
    head += 1;
  }
  let tail = 0;
  while (tail < shorter - head && a[a.length - 1 - tail] === b[b.length - 1 - tail]) {
    tail += 1;
  }
  const [lines, others] = [a.slice(head, a.length - tail), b.slice(head, b.length - tail)];
  if (lines.length === 0 && others.length === 0) {
    return [];
  }
  const moved = (range: Range): Range => ({
    fromA: range.fromA + head,
    toA: range.toA + head,
    fromB: range.fromB + head,
    toB: range.toB + head,
  });
  return middleDiff(lines, others).map(moved);
}

function middleDiff(a: string[], b: string[]): Range[] {
  const whole = [{ fromA: 0, toA: a.length, fromB: 0, toB: b.length }];
  if (a.length === 0 || b.length === 0) {
    return whole;
  }
  const trace = search(a, b);
  return trace ? rangesOf(trace, a.length, b.length) : whole;
}

/** For each number of edits, how far each diagonal was reached before it; undefined: too many. */
function search(a: string[], b: string[]): Int32Array[] | undefined {
  const most = Math.min(a.length + b.length, EDITS_MAX);
  const mid = most + 1;
  const reach = new Int32Array(2 * most + 3); // By diagonal: x in `a`, where y = x - diagonal in `b`.
  const trace: Int32Array[] = [];
  for (let edits = 0; edits <= most; edits += 1) {
    trace.push(reach.slice(mid - edits - 1, mid + edits + 2));
    for (let k = -edits; k <= edits; k += 2) {
      const down = goesDown(reach, mid, k, edits);
      let x = down ? at(reach, mid + k + 1) : at(reach, mid + k - 1) + 1;
      while (x < a.length && x - k < b.length && a[x] === b[x - k]) {
        x += 1;
      }
      reach[mid + k] = x;
      if (x >= a.length && x - k >= b.length) {
        return trace;
      }
    }
  }
  return undefined;
}

function at(reach: Int32Array, index: number): number {
  return reach[index] ?? 0;
}

/** Whether the furthest way to diagonal `k` adds a line of `b`, and does not remove one of `a`. */
function goesDown(reach: Int32Array, mid: number, k: number, edits: number): boolean {
  return k === -edits || (k !== edits && at(reach, mid + k - 1) < at(reach, mid + k + 1));
}

/** The way back from the end: each edit is a range, and those that touch are one. */
function rangesOf(trace: Int32Array[], lengthA: number, lengthB: number): Range[] {
  const ranges: Range[] = [];
  let [x, y] = [lengthA, lengthB];
  for (let edits = trace.length - 1; edits > 0; edits -= 1) {
    const reach = trace[edits] as Int32Array;
    const mid = edits + 1;
    const k = x - y;
    const down = goesDown(reach, mid, k, edits);
    const fromX = at(reach, mid + (down ? k + 1 : k - 1));
    const fromY = fromX - (down ? k + 1 : k - 1);
    const edit = {
      fromA: fromX,
      toA: down ? fromX : fromX + 1,
      fromB: fromY,
      toB: down ? fromY + 1 : fromY,
    };
    const next = ranges.at(-1);
    if (next && next.fromA === edit.toA && next.fromB === edit.toB) {
      next.fromA = edit.fromA;
      next.fromB = edit.fromB;
    } else {
      ranges.push(edit);
    }
    [x, y] = [fromX, fromY];
  }
  return ranges.reverse();
}
