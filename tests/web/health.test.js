// The page must show the true state of the replicas: header, banners and buttons of all views agree
// and change together while majorities and leaders are lost and return.

import assert from 'node:assert/strict';
import { after, before } from 'node:test';
import { openBrowser, Visit, visitingBy } from './browser.js';
import { button, editor, said, well } from './finders.js';
import { Replicas, slowness, until } from './replicas.js';
import { toasted } from './toasts.js';

// On an idle machine; a busy one has more, see slowness().
const KNOWN_MS = 3_000; // Until a killed majority is shown; the overview needs 1 s.
const NOTICED_MS = 2_500; // Until a stopped leader is shown: its heartbeats are missing.
const BACK_MS = 2_000; // From the first successful write until the page is live.
const SILENT_MS = 2_000; // More than the silence of a leader that pages tolerate.

let browser;
let replicas;

before(async () => {
  browser = await openBrowser();
  replicas = await Replicas.start();
  await replicas.create('/app/one', 'before');
});

after(async () => {
  await browser?.close();
  await replicas?.stop();
});

const visiting = visitingBy(() => ({ browser, replicas }));
const pause = (ms) => new Promise((resolve) => setTimeout(resolve, ms));
const condition = (page, text) => page.getByRole('banner').getByText(text, { exact: true });
const leaderOf = async (at) =>
  (await (await replicas.ask('GET', '/ensemble/v1', { at })).json()).leader;

/** Indexes of two followers, and of the leader. */
async function roles() {
  await until('a leader is known to all', async () => {
    const all = await Promise.all([0, 1, 2].map((at) => leaderOf(at).catch(() => 0)));
    return all[0] > 0 && all.every((id) => id === all[0]);
  });
  const leader = (await leaderOf(0)) - 1;
  return { leader, follower: (leader + 1) % 3, other: (leader + 2) % 3 };
}

async function isWritable(at) {
  const answer = await fetch(`${replicas.url(at)}/znodes/v1/probe?upsert=true`, {
    method: 'PUT',
    body: 'x',
    headers: { 'Content-Type': 'application/octet-stream' },
    signal: AbortSignal.timeout(1_000),
  }).catch(() => undefined);
  return answer?.ok === true;
}

function signal(indexes, name) {
  for (const at of indexes) {
    replicas.processes[at].kill(name);
  }
}

async function restart(indexes) {
  for (const at of indexes) {
    replicas.processes[at] = replicas.serve(at);
  }
}

/** Records each change of the shown health from now on. */
async function listen(page) {
  await page.evaluate(() => {
    const texts = (selector) =>
      [...document.querySelectorAll(selector)].map((one) => one.textContent).join(' ');
    globalThis.heard = [];
    let last = '';
    const look = () => {
      const now = {
        lamp: texts('.lamp'),
        sentence: texts('.health'),
        toasts: texts('.toast'),
        ticks: texts('.toast.done'), // Toasts with a green tick.
      };
      if (JSON.stringify(now) !== last) {
        last = JSON.stringify(now);
        globalThis.heard.push({ at: Date.now(), ...now });
      }
    };
    new MutationObserver(look).observe(document.body, {
      subtree: true,
      childList: true,
      characterData: true,
    });
    look();
  });
  return () => page.evaluate(() => globalThis.heard);
}

function assertSoon(since, ms) {
  const spent = Date.now() - since;
  assert.ok(spent < ms, `${spent} ms, more than ${Math.round(ms)}`);
}

async function isOffered(page, name) {
  return (await button(page, name).getAttribute('aria-disabled')) === 'false';
}

visiting(
  'every page shows a lost majority at once, and a restored one within 2 s',
  {},
  async (page, visit) => {
    const { leader, follower, other } = await roles();
    const views = await Promise.all([0, 1, 2].map(() => Visit.begin(browser, replicas)));
    const begun = page.waitForEvent('websocket');
    await visit.open('/ui/tree/app/one', follower);
    const socket = await begun;
    await button(page, 'Edit').waitFor();
    await views[0].open('/ui/', follower);
    await well(views[0].page);
    const asked = new Set(); // The replicas that the overview asks for its curves.
    views[0].page.on('request', (request) => {
      const { host, pathname } = new URL(request.url());
      if (pathname === '/metrics/history/v1') {
        asked.add(host);
      }
    });
    await views[1].open('/ui/events?watch=recursive:/app', follower);
    await views[2].open('/ui/tree/app', follower);
    const writer = views[2].page;
    await button(writer, 'New child').click();
    await writer.getByLabel('Name', { exact: true }).fill('new');
    await condition(page, 'Live').waitFor();
    const began = Date.now();
    let slow = slowness();
    await Promise.all([replicas.kill(leader), replicas.kill(other)]);
    for (const one of [page, ...views.map((view) => view.page)]) {
      await condition(one, 'No majority').waitFor();
      await one.getByText('Writes are not possible').waitFor();
    }
    assertSoon(began, KNOWN_MS * slow());
    await views[0].page.getByText('Critical: 1 of 3 voting').waitFor();
    for (const name of ['Edit', 'New child', 'Delete']) {
      assert.ok(!(await isOffered(page, name)), name);
    }
    assert.ok(!(await isOffered(writer, 'Create')), 'also in a dialog that was open before');
    await button(page, 'Edit').focus();
    await page.getByRole('tooltip').getByText('No majority of replicas').waitFor();
    await page.getByText('looking for a leader').waitFor();
    await until('its replica, which has no leader, hangs up', () => socket.isClosed());
    assert.ok(
      !(await isOffered(page, 'Delete')),
      'also when its replica has closed the connection',
    );
    await condition(page, 'No majority').waitFor();
    assert.deepEqual(
      [...asked],
      [new URL(replicas.url(follower)).host],
      'none that does not serve',
    );
    await restart([leader, other]);
    await until('writes are done', () => isWritable(follower));
    const healed = Date.now();
    slow = slowness();
    for (const one of [page, ...views.map((view) => view.page)]) {
      await condition(one, 'Live').waitFor();
    }
    assertSoon(healed, BACK_MS * slow());
    await until('it may be edited', () => isOffered(page, 'Edit'));
    await button(writer, 'Create').click();
    await toasted(writer, 'Created: /app/new');
    await well(views[0].page);
    for (const view of views) {
      assert.deepEqual(view.complaints, []);
      await view.end();
    }
  },
);

/** What the replica says of itself and of the ensemble, once all replicas vote. */
async function goodReports(at) {
  const paths = ['/status/v1', '/ensemble/v1'];
  let reports;
  await until('all replicas vote', async () => {
    const asked = await Promise.all(paths.map((path) => replicas.ask('GET', path, { at })));
    const [status, ensemble] = await Promise.all(asked.map((answer) => answer.json()));
    reports = new Map([
      [paths[0], status],
      [paths[1], ensemble],
    ]);
    const voting = ensemble.members.filter(({ votes, state }) => votes && state !== 'silent');
    return status.serving && ensemble.leader !== 0 && voting.length === replicas.ports.length;
  });
  return reports;
}

/**
 * What the page's replica says of itself and of the ensemble stays as it is now, but for a leader
 * that it last heard from `silence` ms ago. The function that is returned ends this.
 */
async function freezeReports(page, at, silence) {
  const pattern = /\/(status|ensemble)\/v1$/;
  const reports = await goodReports(at);
  reports.get('/status/v1').lag_ms = silence;
  await page.route(pattern, (route) =>
    route.fulfill({ json: reports.get(new URL(route.request().url()).pathname) }),
  );
  return () => page.unroute(pattern);
}

/** Saves of pages to come stay on their way until the function that is returned is called. */
async function holdSaves(page) {
  const held = Promise.withResolvers();
  await page.routeWebSocket(/./, (socket) => {
    const server = socket.connectToServer();
    socket.onMessage(async (message) => {
      if (JSON.parse(message).op === 'set') {
        await held.promise;
      }
      server.send(message);
    });
  });
  return held.resolve;
}

const alters = { alters: true };
visiting('a save without a majority shows its reason and outcome', alters, async (page, visit) => {
  const { leader, follower, other } = await roles();
  const release = await holdSaves(page);
  await visit.open('/ui/tree/app/one', follower);
  await button(page, 'Edit').click();
  await editor(page).fill('mine');
  // Between a silent leader and a lost majority there may be less time than the page needs to ask for
  // the state once. So that state lasts, and all replicas are well, until the page has shown it.
  const thaw = await freezeReports(page, follower, SILENT_MS);
  await page.keyboard.press('Control+s');
  await said(page, /^Not saved yet: the replica waits for its leader/);
  signal([leader, other], 'SIGSTOP');
  try {
    await thaw();
    release();
    await said(
      page,
      /^Not saved yet: there is no majority of replicas\. The dashboard retries the same save/,
    );
    await said(page, /^It is not known yet whether it was saved: there is no majority of replicas/);
    await until('no save is offered', async () => !(await isOffered(page, 'Save')));
    await button(page, 'Save').hover();
    await page.getByRole('tooltip').getByText('No majority of replicas').waitFor();
    assert.equal(await editor(page).textContent(), 'mine');
  } finally {
    signal([leader, other], 'SIGCONT');
  }
  await toasted(page, /^Saved: version/);
  await editor(page).waitFor({ state: 'detached' });
  assert.equal((await replicas.data('/app/one')).toString(), 'mine');
});

visiting(
  'while a stopped leader is replaced no page shows a healthy or a dead ensemble',
  {},
  async (page, visit) => {
    const { leader, follower } = await roles();
    const served = await Visit.begin(browser, replicas);
    await visit.open('/ui/', follower);
    await well(page);
    await served.open('/ui/', leader);
    await well(served.page);
    const heard = [await listen(page), await listen(served.page)];
    signal([leader], 'SIGSTOP');
    const stopped = Date.now();
    const slow = slowness();
    try {
      await until('it is replaced', async () => {
        const now = await leaderOf(follower);
        return now > 0 && now !== leader + 1;
      });
      await condition(page, 'Live').waitFor();
      await toasted(served.page, /^Now connected to replica \d, before to/);
      await pause(KNOWN_MS);
    } finally {
      signal([leader], 'SIGCONT');
    }
    const end = Date.now();
    const noticed = stopped + NOTICED_MS * slow();
    for (const listened of heard) {
      const shown = (await listened()).filter(({ at }) => at < end);
      const late = shown.filter((_, at) => (shown[at + 1]?.at ?? end) > noticed);
      assert.deepEqual(
        late.filter(({ sentence }) => sentence.includes('All is well')),
        [],
      );
      assert.deepEqual(
        shown.filter(({ toasts, ticks }) => /lost|died/i.test(toasts) || ticks !== ''),
        [],
      );
    }
    await well(page);
    await well(served.page);
    assert.deepEqual(served.complaints, []);
    await served.end();
  },
);

visiting(
  'behind a proxy that sends REST to another replica the page shows its own replica',
  {},
  async (page, visit) => {
    const { follower, other } = await roles();
    let asked = 0;
    let connections = 0;
    page.on('websocket', () => {
      connections += 1;
    });
    await page.route(/\/(status|ensemble)\/v1$/, async (route) => {
      const { pathname } = new URL(route.request().url());
      const response = await route.fetch({ url: `${replicas.url(other)}${pathname}` });
      asked += 1;
      await route.fulfill({ response });
    });
    await visit.open('/ui/', follower);
    await well(page);
    await page.getByText(`As reported by replica ${follower + 1}`).waitFor();
    await pause(KNOWN_MS);
    await condition(page, 'Live').waitFor();
    assert.ok(asked <= 2 * connections, `asked in vain: ${asked}`);
  },
);
