import assert from 'node:assert/strict';
import { mock, test } from 'node:test';
import { Alarm } from '../../../web/src/api/alarm';

test('a postponed alarm fires once, after a silence of its delay', () => {
  mock.timers.enable({ apis: ['setTimeout', 'Date'] });
  mock.method(performance, 'now', () => Date.now());
  let acted = 0;
  const alarm = new Alarm(() => {
    acted += 1;
  });
  for (let at = 0; at < 10; at += 1) {
    alarm.set(1_000);
    mock.timers.tick(900);
  }
  assert.equal(acted, 0);
  mock.timers.tick(99);
  assert.equal(acted, 0);
  mock.timers.tick(1);
  assert.equal(acted, 1);
  alarm.set(1_000);
  alarm.set(200); // Earlier than before.
  mock.timers.tick(200);
  assert.equal(acted, 2);
  alarm.set(100);
  alarm.stop();
  mock.timers.tick(5_000);
  assert.equal(acted, 2);
  mock.timers.reset();
});
