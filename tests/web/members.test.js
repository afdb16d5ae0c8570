// The members of the ensemble, changed in the page: what each dialog says before the change, what it
// sends, and what it shows of every outcome. The tests build on each other: 3 voters, then 4, then 3.

import assert from 'node:assert/strict';
import { after, before } from 'node:test';
import { openBrowser, visitingBy } from './browser.js';
import { button, dialog } from './finders.js';
import { Replicas, until } from './replicas.js';

const SUPER = 'super:zUZ0bpqYS7FucDXsnUgxOWTto1s='; // super:root
const AUTHORIZATION = `Basic ${btoa('super:root')}`;
const REMOVED = 6; // Exit code of a replica that was removed.
const DEAD = 'zk9.invalid:10998'; // The address of a member that is never started.
const NEWCOMER = 4;
const LEADERS_MAX = 5; // Elections between two looks, in a row.

let browser;
let replicas;
let leads; // In the last two tests: replica 1 may have left.

before(async () => {
  browser = await openBrowser();
  replicas = await Replicas.start(3, { superDigest: SUPER });
  await replicas.join(); // Replica 4, which is added in the page.
  await until('the leader has written all addresses', async () => {
    const text = (await replicas.data('/zookeeper/config')).toString();
    return text.match(/;127/g)?.length === 3;
  });
});

after(async () => {
  await browser?.close();
  await replicas?.stop();
});

const visiting = visitingBy(() => ({ browser, replicas }));

// ---- What is there ----

/** A change of the members by another client. */
function change(method, path = '', body = undefined, at = 0) {
  return replicas.ask(method, `/ensemble/v1/members${path}`, {
    at,
    headers: { Authorization: AUTHORIZATION, 'Content-Type': 'application/json' },
    ...(body ? { body: JSON.stringify(body) } : {}),
  });
}

async function ensemble(at = 0) {
  return (await replicas.ask('GET', '/ensemble/v1', { at })).json();
}

async function memberOf(id) {
  return (await ensemble()).members.find((one) => one.id === id);
}

// ---- What is shown ----

const card = (page, id) => page.getByRole('region', { name: `Replica ${id}`, exact: true });
const action = (page, id, name) => card(page, id).getByRole('button', { name, exact: true });
const confirm = (page, name) => dialog(page).getByRole('button', { name, exact: true });
const field = (page, name) => dialog(page).getByLabel(name);
const done = (page) => shows(page, /^Done\. Version of the configuration: \d+:\d+$/);
const isOffered = async (one) => (await one.getAttribute('aria-disabled')) === 'false';

/** Waits until the dialog shows this text; else fails with what it shows. */
async function shows(page, text) {
  try {
    await dialog(page).getByText(text).first().waitFor();
  } catch (cause) {
    const shown = await page.locator('dialog, body').first().textContent();
    throw new Error(`not shown: ${text}, but: ${shown}`, { cause });
  }
}

async function signIn(page, user = 'super', password = 'root') {
  await page.getByRole('banner').getByRole('button').last().click();
  await dialog(page).locator('[autocomplete=username]').fill(user);
  await dialog(page).locator('[type=password]').fill(password);
  await page.keyboard.press('Enter');
  await dialog(page).waitFor({ state: 'detached' });
}

/** Opens the page as the super user. */
async function begin(visit, at = 0) {
  await visit.open('/ui/ensemble', at);
  await signIn(visit.page);
}

async function close(page) {
  await confirm(page, 'Close').last().click();
  await dialog(page).waitFor({ state: 'detached' });
}

/** The changes that the page sends; `lose`: those whose answers get lost. */
async function follow(page, lose = 0) {
  const sent = [];
  let lost = 0;
  await page.route('**/ensemble/v1/members**', async (route) => {
    const headers = await route.request().allHeaders();
    const key = headers['idempotency-key'];
    if (key) {
      sent.push({ key, tag: headers['if-match'] });
    }
    if (!key || lost === lose) {
      await route.continue();
      return;
    }
    lost += 1;
    await route.fetch();
    await route.abort('connectionreset');
  });
  return sent;
}

// ---- The tests ----

visiting('a replica that waits is added with what it says of itself', {}, async (page, visit) => {
  await begin(visit);
  const peer = `127.0.0.1:${replicas.peers[NEWCOMER - 1]}`;
  const row = page.getByRole('row').filter({ hasText: peer });
  await row.getByRole('button', { name: 'Copy the command that adds it' }).waitFor();
  await row.getByRole('button', { name: 'Add replica 4' }).click();
  assert.equal(await field(page, 'Id of the replica').inputValue(), '4');
  assert.equal(await field(page, 'Address for replicas').inputValue(), peer);
  const client = `127.0.0.1:${replicas.ports[NEWCOMER - 1]}`;
  assert.equal(await field(page, 'Address for clients').inputValue(), client);
});

visiting('the page of a replica that waits says so', {}, async (page, visit) => {
  visit.origins.add(NEWCOMER - 1);
  await page.goto(`${replicas.url(NEWCOMER - 1)}/ui/ensemble`);
  await page
    .getByText('Replica 4 is no member yet: it waits to be added', { exact: true })
    .waitFor();
  await page.getByText('Open the dashboard at a member to add it.').waitFor();
  assert.equal(await page.getByText('0 of 0').count(), 0);
});

visiting(
  'the page of a replica that has left names members',
  { refused: true },
  async (page, visit) => {
    let left = false;
    await page.route('**/ensemble/v1', async (route) => {
      const response = await route.fetch();
      const json = await response.json();
      const members = json.members.filter(({ id }) => !left || id !== 1);
      await route.fulfill({ response, json: { ...json, members } });
    });
    await begin(visit);
    await action(page, 1, 'Remove').click();
    await field(page, 'Change it although').check();
    await shows(page, 'This page was loaded from replica 1, and ends with it');
    await confirm(page, 'Cancel').click();
    left = true;
    const banner = page.getByRole('alert').filter({ hasText: 'is no member any more' });
    await banner.getByRole('link', { name: `${replicas.url(1)}/ui/ensemble` }).waitFor();
  },
);

visiting('only the super user changes members', {}, async (page, visit) => {
  await visit.open('/ui/ensemble');
  const demote = action(page, 2, 'Demote');
  for (const one of [button(page, 'Add a member'), demote, action(page, 3, 'Remove')]) {
    assert.equal(await isOffered(one), false);
  }
  await demote.focus();
  await page.getByRole('tooltip').getByText('Only the super user changes members').waitFor();
  await signIn(page, 'bob', 'pass-w0rd');
  const user = page.getByRole('banner').getByRole('button', { name: 'bob' });
  await user.waitFor();
  assert.equal(await isOffered(demote), false);
  await user.click();
  await dialog(page).getByRole('button', { name: 'Sign out' }).click();
  await page.getByRole('main').getByRole('button', { name: 'Sign in' }).click();
  await dialog(page).getByLabel('User').fill('super');
  await dialog(page).getByLabel('Password').fill('root');
  await page.keyboard.press('Enter');
  await until('the actions are offered', () => isOffered(demote));
});

visiting('a member is added after a trial', { refused: true }, async (page, visit) => {
  await begin(visit);
  await button(page, 'Add a member').click();
  await confirm(page, 'Check').click();
  await shows(page, 'A number from 1 to 65535');
  const id = field(page, 'Id of the replica');
  assert.equal(await id.evaluate((one) => one === document.activeElement), true);
  await id.fill('1');
  await field(page, 'Address for replicas').fill(`127.0.0.1:${replicas.peers[3]}`);
  await field(page, 'Address for clients').fill(`127.0.0.1:${replicas.ports[3]}`);
  await page.keyboard.press('Enter');
  await shows(page, 'member 1 exists already: edit it, or choose another id');
  await shows(page, 'Nothing was changed.');
  await id.fill(String(NEWCOMER));
  await page.keyboard.press('Enter');
  await shows(page, 'As many voters may fail as before: 1.');
  await shows(page, '1 now, 1 then');
  await shows(page, 'voters: 1, 2, 3; observers: 4');
  assert.equal(await memberOf(NEWCOMER), undefined); // It was a trial.
  await confirm(page, 'Add replica 4').click();
  await done(page);
  await shows(page, 'Next: start replica 4');
  const closing = confirm(page, 'Close').last();
  await until('the button has the focus', () =>
    closing.evaluate((one) => one === document.activeElement),
  );
  await page.keyboard.press('Enter');
  await dialog(page).waitFor({ state: 'detached' });
  await card(page, NEWCOMER).locator('dd').getByText('observer', { exact: true }).waitFor();
  assert.equal((await memberOf(NEWCOMER)).role, 'observer');
});

visiting(
  'one that is not in step is not promoted, and leaves',
  { refused: true },
  async (page, visit) => {
    await change('POST', '', { id: 9, peer: DEAD });
    await begin(visit);
    await action(page, 9, 'Promote').click();
    await shows(page, 'Not possible yet. The leader is asked again each second.');
    await shows(page, /^replica 9 is not connected: it must be within 1 s of the leader for 10 s$/);
    const promote = confirm(page, 'Promote replica 9');
    assert.equal(await isOffered(promote), false);
    await promote.hover();
    await page.getByRole('tooltip').getByText('First check the change').waitFor();
    await confirm(page, 'Cancel').click();
    await action(page, 9, 'Remove').click();
    await shows(page, 'Replica 9 does not answer');
    await confirm(page, 'Remove replica 9').click(); // An observer's id is not typed.
    await done(page);
    await close(page);
    await card(page, 9).waitFor({ state: 'detached' });
  },
);

visiting('other members meanwhile: nothing is changed', { refused: true }, async (page, visit) => {
  await begin(visit);
  const sent = await follow(page);
  await action(page, 2, 'Addresses').click();
  await field(page, 'Zone').fill('east');
  await confirm(page, 'Check').click();
  await shows(page, 'If replica 2 does not answer at the new address');
  await change('PUT', '/3', { zone: 'west' });
  await confirm(page, 'Change replica 2').click();
  await shows(page, /^The members have changed meanwhile: version \d+:\d+, you saw \d+:\d+\./);
  await shows(page, 'Nothing was changed.');
  assert.equal((await memberOf(2)).zone, undefined);
  assert.equal(await field(page, 'Zone').inputValue(), 'east');
  await confirm(page, 'Check again').click();
  await confirm(page, 'Change replica 2').click();
  await done(page);
  const [first, second, ...more] = sent;
  assert.equal(more.length, 0);
  assert.equal(second.key, first.key);
  assert.notEqual(second.tag, first.tag);
  await close(page);
  await card(page, 2).getByText('east', { exact: true }).waitFor();
  await card(page, 3).getByText('west', { exact: true }).waitFor();
});

visiting(
  'a lost answer: the same request is sent again',
  { refused: true },
  async (page, visit) => {
    await begin(visit);
    const sent = await follow(page, 1);
    await action(page, 2, 'Addresses').click();
    await field(page, 'Zone').fill('south');
    await confirm(page, 'Check').click();
    await confirm(page, 'Change replica 2').click();
    await shows(page, 'It is not known whether the change was made.');
    await shows(page, /^Replica 1 shows the members as this change wants them: version \d+:\d+\.$/);
    await shows(page, 'zabra members');
    assert.equal(await field(page, 'Zone').getAttribute('readonly'), '');
    const { config_version: version } = await ensemble();
    await confirm(page, 'Send it again').click();
    await done(page);
    assert.equal(sent.length, 2);
    assert.deepEqual(sent[1], sent[0]);
    assert.equal((await ensemble()).config_version, version); // It was made once.
  },
);

visiting('an observer is promoted once it is in step', { refused: true }, async (page, visit) => {
  await begin(visit);
  await action(page, NEWCOMER, 'Promote').click();
  await shows(page, '4 voters tolerate no more failures than 3');
  await shows(page, 'Replica 4 votes: each write then needs 3 of 4 voters.');
  await confirm(page, 'Promote replica 4').click();
  await done(page);
  await shows(page, '1 before, 1 now');
  await close(page);
  await card(page, NEWCOMER).locator('dd').getByText('voter', { exact: true }).waitFor();
  await page.getByText('4 of 4', { exact: true }).waitFor();
});

visiting('a voter is removed when its id is typed', { refused: true }, async (page, visit) => {
  const { leader } = await ensemble();
  const leaves = [2, 3].find((id) => id !== leader);
  const { processes } = replicas;
  const ended = new Promise((resolve) => {
    processes[leaves - 1].once('exit', resolve);
  });
  await begin(visit);
  await action(page, leaves, 'Remove').click();
  await shows(page, 'As many voters may fail as before: 1.');
  await shows(page, /its disk stays out for good/);
  const remove = confirm(page, `Remove replica ${leaves}`);
  const typed = field(page, `Type ${leaves} to confirm`);
  await typed.fill('1');
  await page.keyboard.press('Enter');
  assert.equal(await isOffered(remove), false);
  assert.equal((await memberOf(leaves)).role, 'voter');
  await typed.fill(String(leaves));
  await page.keyboard.press('Enter');
  await done(page);
  await close(page);
  await card(page, leaves).waitFor({ state: 'detached' });
  await page
    .getByText(/^Removed disks/)
    .first()
    .click();
  await page.getByRole('cell', { name: String(leaves), exact: true }).waitFor();
  assert.equal(await ended, REMOVED);
});

visiting(
  'a change that leaves no tolerance wants consent',
  { refused: true },
  async (page, visit) => {
    await begin(visit);
    await action(page, NEWCOMER, 'Demote').click();
    await shows(page, 'The leader refuses this change.');
    await shows(page, /^failures tolerated: none after the change, 1 now/);
    assert.equal(await isOffered(confirm(page, 'Demote replica 4')), false);
    await field(page, 'Change it although no failure will be tolerated').check();
    await shows(page, 'After this change one failure stops the ensemble.');
    await shows(page, '1 now, 0 then');
    await confirm(page, 'Demote replica 4').click();
    await done(page);
    await close(page);
    await page.getByText('0: one failure stops the ensemble').waitFor();
    assert.equal((await memberOf(NEWCOMER)).role, 'observer');
  },
);

visiting('a voter is replaced by an observer', { refused: true }, async (page, visit) => {
  const { leader, members: before } = await ensemble();
  leads = leader;
  const leaves = before.find(({ id, role }) => role === 'voter' && id !== leader).id;
  await begin(visit, leads - 1);
  await action(page, leaves, 'Replace').click();
  await field(page, 'Replica that takes its place').selectOption(`replica ${NEWCOMER}, observer`);
  await shows(page, 'One failure stops the ensemble, before and after this change.');
  await field(page, `Type ${leaves} to confirm`).fill(String(leaves));
  await page.keyboard.press('Enter');
  await done(page);
  await close(page);
  await card(page, leaves).waitFor({ state: 'detached' });
  const { members } = await ensemble(leads - 1);
  const voters = members.map(({ id, role }) => (role === 'voter' ? id : 0));
  assert.deepEqual(voters, [leads, NEWCOMER]);
});

/** Opens the page at the replica that leads, and returns its id: on a busy machine it may change meanwhile. */
async function beginAtLeader(visit, at) {
  for (let tries = 1; ; tries += 1) {
    const { leader } = await ensemble(at);
    await begin(visit, leader - 1);
    const now = (await ensemble(leader - 1)).leader;
    if (now === leader) {
      return leader;
    }
    assert.ok(tries < LEADERS_MAX, `the leader does not stay: ${leader}, then ${now}`);
    await visit.page.evaluate(() => sessionStorage.clear()); // Signs out.
  }
}

// The last test: it takes the majority from the page's replica, which leads.
visiting('a change without a majority stays pending', { refused: true }, async (page, visit) => {
  const leader = await beginAtLeader(visit, leads - 1);
  const other = (leader === NEWCOMER ? leads : NEWCOMER) - 1;
  let asked;
  let answer = 'none';
  await replicas.freeze(other);
  try {
    asked = change('POST', '', { id: 9, peer: DEAD }, leader - 1).then(
      ({ status }) => {
        answer = status;
      },
      (error) => {
        answer = error.message; // Or the end of the replicas would be its error.
      },
    );
    await page
      .getByText(/^A change of the members is not committed yet: version/)
      .waitFor()
      .catch((cause) => {
        throw new Error(`no change is pending; its answer: ${answer}`, { cause });
      });
    await page.getByText(`With it: voters: ${leads}, 4; observers: 9`).waitFor();
    const add = button(page, 'Add a member');
    await until('the actions are not offered', async () => !(await isOffered(add)));
    await add.hover();
    await page.getByRole('tooltip').getByText('No majority of replicas').waitFor();
  } finally {
    replicas.processes[other].kill('SIGCONT');
  }
  await page.getByText(/^A change of the members is not/).waitFor({ state: 'detached' });
  await asked;
});
