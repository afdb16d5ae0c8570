import assert from 'node:assert/strict';
import { test } from 'node:test';
import { lineDiff } from '../../../web/src/views/znode/edit/line_diff';
import { merge3 } from '../../../web/src/views/znode/edit/merge';

const lines = (text: string) => text.split(' ');

function merge(base: string, mine: string, theirs: string) {
  const merged = merge3(lines(base), lines(mine), lines(theirs));
  const [mineNow, theirsNow] = [merged.mine.join(' '), merged.theirs.join(' ')];
  return { ...merged, mine: mineNow, theirs: theirsNow, base: merged.base.join(' ') };
}

/** A fixed sequence of numbers. */
function random(seed: number): (below: number) => number {
  let state = seed;
  return (below) => {
    state = (Math.imul(state, 1_103_515_245) + 12_345) >>> 0;
    return (state >>> 8) % below;
  };
}

test('a difference transforms one text into the other, and keeps the common lines', () => {
  const next = random(1);
  for (let round = 0; round < 3_000; round += 1) {
    const [a, b] = [0, 1].map(() => Array.from({ length: next(9) }, () => `${next(4)}`));
    const made: string[] = [];
    let [atA, atB] = [0, 0];
    for (const { fromA, toA, fromB, toB } of lineDiff(a, b)) {
      assert.deepEqual(a.slice(atA, fromA), b.slice(atB, fromB));
      assert.ok(fromA < toA || fromB < toB);
      made.push(...a.slice(atA, fromA), ...b.slice(fromB, toB));
      [atA, atB] = [toA, toB];
    }
    assert.deepEqual([...made, ...a.slice(atA)], b, `${a} to ${b}`);
  }
});

test('a difference of texts without common lines is bounded', () => {
  const a = Array.from({ length: 20_000 }, (_, at) => `a${at}`);
  const b = Array.from({ length: 20_000 }, (_, at) => `b${at}`);
  const [first, ...more] = lineDiff(['same', ...a, 'end'], ['same', ...b, 'end']);
  assert.deepEqual(first, { fromA: 1, toA: 20_001, fromB: 1, toB: 20_001 });
  assert.deepEqual(more, []);
});

test('changes of only one side are taken', () => {
  const both = merge('1 2 3 4 5 6 7', 'mine 2 3 4 5 6 7', '1 2 3 4 5 6 theirs');
  assert.deepEqual(both, {
    mine: 'mine 2 3 4 5 6 theirs',
    theirs: 'mine 2 3 4 5 6 theirs',
    base: '1 2 3 4 5 6 theirs',
    taken: 1,
    conflicts: 0,
  });
  assert.equal(merge('1 2 3', '1 2 3', '1 new 2').mine, '1 new 2', 'also added and removed lines');
  assert.equal(merge('1 2 3 4', '1 3 4', '1 2 3 4 5').mine, '1 3 4 5');
});

test('the same change on both sides is no conflict', () => {
  const { mine, conflicts, taken } = merge('1 2 3', '1 same 3', '1 same 3');
  assert.deepEqual({ mine, conflicts, taken }, { mine: '1 same 3', conflicts: 0, taken: 0 });
});

test('different changes of the same lines are a conflict, and only these lines', () => {
  const merged = merge('1 2 3 4 5', '1 mine 3 4 5', '1 theirs 3 4 5 6');
  assert.deepEqual(merged, {
    mine: '1 mine 3 4 5 6',
    theirs: '1 theirs 3 4 5 6',
    base: '1 2 3 4 5 6',
    taken: 1,
    conflicts: 1,
  });
  assert.equal(merge('1 2', 'mine 2', '1 theirs').conflicts, 1, 'neighbours have no order');
  assert.equal(merge('1 2', '1 mine 2', '1 theirs 2').conflicts, 1, 'both add at one place');
  assert.equal(merge('1 2 3', '1 3', '1 theirs 3').conflicts, 1, 'deleted and changed');
});

test('a taken change is still theirs: when they revert it, mine reverts it, too', () => {
  const [base, theirs] = ['1 2 3 4 x', '1 2 3 4 y'];
  const first = merge(base, 'mine 2 3 4 x', theirs);
  assert.deepEqual([first.mine, first.base], ['mine 2 3 4 y', theirs]);
  assert.equal(merge(first.base, first.mine, base).mine, 'mine 2 3 4 x', 'the original text');
  const also = merge(first.base, first.mine, '1 2 more 4 x');
  assert.deepEqual([also.mine, also.base], ['mine 2 more 4 x', '1 2 more 4 x']);
  assert.equal(
    merge(first.base, 'mine 2 3 4 y+', base).conflicts,
    1,
    'mine has changed it further',
  );
  const alike = merge('1 2 3', '1 same 3', '1 same 3');
  assert.equal(merge(alike.base, alike.mine, '1 2 3').mine, '1 2 3', 'also a change of both sides');
  const open = merge('1 2 3', '1 mine 3', '1 theirs 3');
  assert.equal(merge(open.base, open.mine, '1 theirs 3').conflicts, 1, 'no choice yet');
});

test('no change of either side is lost', () => {
  const next = random(7);
  for (let round = 0; round < 3_000; round += 1) {
    const base = Array.from({ length: 8 }, (_, at) => `${at}`);
    const edit = (side: string) =>
      base.flatMap(
        (line) => [[line], [line], [line], [], [side + line], [line, `${side}+`]][next(6)] ?? [],
      );
    const [mine, theirs] = [edit('m'), edit('t')];
    const merged = merge3(base, mine, theirs);
    for (const line of mine.filter((one) => one.startsWith('m'))) {
      assert.ok(merged.mine.includes(line), `${line} of mine`);
    }
    for (const line of theirs.filter((one) => one.startsWith('t'))) {
      assert.ok(merged.theirs.includes(line), `${line} of theirs`);
    }
    assert.equal(lineDiff(merged.theirs, merged.mine).length > 0, merged.conflicts > 0);
    const back = merge3(merged.base, merged.mine, base);
    const gone = lineDiff(base, theirs).length > 0 && merged.conflicts === 0;
    assert.ok(!gone || !back.mine.some((line) => line.startsWith('t')), 'theirs has reverted it');
    assert.deepEqual(merge3(base, mine, base).mine, mine);
    assert.deepEqual(merge3(base, base, theirs).mine, theirs);
  }
});
