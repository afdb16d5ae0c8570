// Two texts that grew from one: what only one side has changed is taken, and where both have changed the
// same place differently there is a conflict. Works on lines, and knows no editor.

import { lineDiff, type Range } from './line_diff';

type Lines = readonly string[];

export interface Merged {
  /** The merged text, with my side of each conflict. */
  mine: string[];
  /** The same with their side: so what differs between the two is exactly what must be chosen. */
  theirs: string[];
  /** The base, with what both texts now have of theirs: what mine grew from as of now. Without it a later
   * merge would take for mine what was taken, and undo what they do to it. */
  base: string[];
  /** Places that only they have changed. */
  taken: number;
  /** Places that both have changed, differently. */
  conflicts: number;
}

/** Changes of both sides that touch each other. */
interface Region {
  /** Lines of the base. */
  from: number;
  to: number;
  mine: Range[];
  theirs: Range[];
}

function regionsOf(mine: Range[], theirs: Range[]): Region[] {
  const regions: Region[] = [];
  const all = [
    ...mine.map((range) => ({ range, side: 'mine' as const })),
    ...theirs.map((range) => ({ range, side: 'theirs' as const })),
  ].sort((a, b) => a.range.fromA - b.range.fromA || a.range.toA - b.range.toA);
  for (const { range, side } of all) {
    let region = regions.at(-1);
    if (!region || range.fromA > region.to) {
      region = { from: range.fromA, to: range.toA, mine: [], theirs: [] };
      regions.push(region);
    }
    region.to = Math.max(region.to, range.toA);
    region[side].push(range);
  }
  return regions;
}

/** One side's text, walked along with the base. */
class Side {
  private readonly lines: Lines;
  private shift = 0; // Of its lines against those of the base.

  constructor(lines: Lines) {
    this.lines = lines;
  }

  /** What it has in place of these lines of the base. */
  take({ from, to }: Region, ranges: Range[]): Lines {
    const start = from + this.shift;
    const last = ranges.at(-1);
    this.shift = last ? last.toB - last.toA : this.shift;
    return this.lines.slice(start, to + this.shift);
  }
}

function isSame(a: Lines, b: Lines): boolean {
  return a.length === b.length && a.every((line, at) => line === b[at]);
}

function append(to: string[], lines: Lines): void {
  for (const line of lines) {
    to.push(line);
  }
}

/** Changes of neighbouring lines are of the same place: which of them comes first is not known. */
export function merge3(base: Lines, mine: Lines, theirs: Lines): Merged {
  const merged: Merged = { mine: [], theirs: [], base: [], taken: 0, conflicts: 0 };
  const [ours, others] = [new Side(mine), new Side(theirs)];
  let at = 0; // In the base.
  const keep = (to: number) => {
    for (const text of [merged.mine, merged.theirs, merged.base]) {
      append(text, base.slice(at, to));
    }
  };
  for (const region of regionsOf(lineDiff(base, mine), lineDiff(base, theirs))) {
    keep(region.from);
    const here = ours.take(region, region.mine);
    const there = others.take(region, region.theirs);
    const onlyMine = region.theirs.length === 0;
    const onlyTheirs = region.mine.length === 0;
    const agreed = isSame(here, there);
    merged.taken += onlyTheirs ? 1 : 0;
    merged.conflicts += onlyMine || onlyTheirs || agreed ? 0 : 1;
    append(merged.mine, onlyTheirs ? there : here);
    append(merged.theirs, onlyMine ? here : there);
    append(merged.base, onlyTheirs || agreed ? there : base.slice(region.from, region.to));
    at = region.to;
  }
  keep(base.length);
  return merged;
}
