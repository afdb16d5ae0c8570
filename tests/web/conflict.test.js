// Another client writes to the same znode during an edit: a three-way merge, and a choice where
// both have changed the same lines.

import assert from 'node:assert/strict';
import { after, before } from 'node:test';
import { openBrowser, visitingBy } from './browser.js';
import { button, edit, editor, said, save } from './finders.js';
import { Replicas, until } from './replicas.js';
import { toasted } from './toasts.js';

const RAW = Buffer.from(Array.from({ length: 600 }, (_, at) => (at * 7) & 255));
const BROKEN = Buffer.from([0x61, 0xff, 0xfe, 0x0d, 0x0a, 0x62]);
const LINES = ['one', 'two', 'three', 'four', 'five', 'six', 'seven'];

let browser;
let replicas;

before(async () => {
  browser = await openBrowser();
  replicas = await Replicas.start();
});

after(async () => {
  await browser?.close();
  await replicas?.stop();
});

const visiting = visitingBy(() => ({ browser, replicas }));

async function statOf(path) {
  return (await replicas.ask('GET', `/znodes/v1${path}?view=stat&consistency=linearizable`)).json();
}

/** The lines, with replacements by index. */
const linesWith = (other) => LINES.map((line, at) => other[at] ?? line).join('\n');
const merged = (page) => button(page, 'Save the merged text');

/** Types mine over the text that was read; theirs is saved meanwhile. */
async function differ(visit, path, mine, theirs) {
  const { page } = visit;
  await replicas.create(path, LINES.join('\n'));
  await edit(visit, path);
  await editor(page).fill(mine);
  await replicas.create(path, theirs, { at: 1 });
  await button(page, 'Compare and merge').click();
}

visiting('after a concurrent write the user chooses mine or theirs', {}, async (page, visit) => {
  await replicas.create('/conflict/text', 'before');
  await edit(visit, '/conflict/text');
  await editor(page).fill('mine');
  await replicas.create('/conflict/text', 'theirs', { at: 1 });
  await said(page, /^Another client changed it meanwhile: version 1/);
  assert.equal(await button(page, 'Save').getAttribute('aria-disabled'), 'true');
  await button(page, 'Keep mine').click();
  await replicas.create('/conflict/text', 'theirs again', { at: 1 });
  await said(page, /^Another client changed it meanwhile: version 2/);
  await button(page, 'Keep mine').click();
  await save(page);
  assert.equal((await replicas.data('/conflict/text')).toString(), 'mine');

  await button(page, 'Edit').click();
  await editor(page).fill('mine, too');
  await replicas.create('/conflict/text', 'theirs, too', { at: 1 });
  await button(page, 'Take theirs').click();
  await until('theirs', async () => (await editor(page).textContent()) === 'theirs, too');
  await button(page, 'End editing').click();
  await page.locator('pre.data').getByText('theirs, too').waitFor();
});

visiting(
  'changes of only one side are merged without a choice, and none is undone',
  {},
  async (page, visit) => {
    const path = '/conflict/apart';
    await differ(visit, path, linesWith({ 0: 'mine' }), linesWith({ 6: 'theirs' }));
    await said(page, 'Merged without open conflicts: you will save exactly this text.');
    assert.equal(await page.locator('.cm-deletedChunk').count(), 0);
    await merged(page).click();
    await toasted(page, 'Saved: version 2.');
    const all = linesWith({ 0: 'mine', 6: 'theirs' });
    assert.equal((await replicas.data(path)).toString(), all);
  },
);

visiting('each conflict needs a choice before a save of the merge', {}, async (page, visit) => {
  const path = '/conflict/both';
  const mine = linesWith({ 0: 'mine', 3: 'of mine' });
  await differ(visit, path, mine, linesWith({ 0: 'theirs', 3: 'of theirs', 6: 'taken' }));
  const chunk = page.locator('.cm-deletedChunk');
  await chunk.nth(1).waitFor();
  assert.deepEqual(await visit.barriers(), []);
  const isSaved = async () => (await merged(page).getAttribute('aria-disabled')) === 'false';
  assert.ok(!(await isSaved()));
  assert.ok(await page.getByLabel('Upload a file').isDisabled(), 'it would end the choice');
  await merged(page).hover();
  await page.getByRole('tooltip').getByText('First choose a side for each conflict').waitFor();
  await editor(page).press('Control+End');
  await page.keyboard.type(' and more'); // Outside of the conflicts: no choice.
  assert.equal(await chunk.count(), 2);
  await page.keyboard.press('Control+s');
  await chunk.nth(1).getByText('Take theirs').click();
  await chunk.nth(1).waitFor({ state: 'detached' });
  assert.ok(!(await isSaved()), 'one is left');
  await chunk.first().getByText('Keep mine').click();
  await chunk.first().waitFor({ state: 'detached' });
  await until('it may be saved', isSaved);
  assert.equal((await statOf(path)).version, 1);
  await merged(page).click();
  await toasted(page, 'Saved: version 2.');
  assert.equal(
    (await replicas.data(path)).toString(),
    linesWith({ 0: 'mine', 3: 'of theirs', 6: 'taken and more' }),
  );
});

visiting(
  'an undone choice and further changes of theirs need a new choice',
  {},
  async (page, visit) => {
    const path = '/conflict/again';
    await differ(visit, path, linesWith({ 0: 'mine' }), linesWith({ 0: 'theirs' }));
    const chunk = page.locator('.cm-deletedChunk');
    await chunk.getByText('Take theirs').click();
    await chunk.waitFor({ state: 'detached' });
    await editor(page).press('Control+z');
    await chunk.waitFor();
    assert.equal(await merged(page).getAttribute('aria-disabled'), 'true');
    await chunk.getByText('Keep mine').click();
    await chunk.waitFor({ state: 'detached' });
    await replicas.create(path, linesWith({ 0: 'theirs, changed', 5: 'more' }), { at: 1 });
    await chunk.getByText('theirs, changed').waitFor();
    assert.equal(await merged(page).getAttribute('aria-disabled'), 'true');
    await chunk.getByText('Keep mine').click();
    await merged(page).click();
    await toasted(page, 'Saved: version 3.');
    assert.equal((await replicas.data(path)).toString(), linesWith({ 0: 'mine', 5: 'more' }));
  },
);

visiting('a merge does not restore a change that theirs has reverted', {}, async (page, visit) => {
  const path = '/conflict/back';
  await differ(visit, path, linesWith({ 0: 'mine' }), linesWith({ 4: 'theirs' }));
  const shown = (text) =>
    until(text, async () => (await editor(page).textContent()).includes(text));
  await shown('theirs');
  await replicas.create(path, linesWith({}), { at: 1 }); // As it was read.
  await shown('five');
  await replicas.create(path, linesWith({ 4: 'again' }), { at: 1 });
  await shown('again');
  await replicas.create(path, linesWith({ 6: 'other' }), { at: 1 });
  await shown('other');
  await merged(page).click();
  await toasted(page, 'Saved: version 5.');
  const all = linesWith({ 0: 'mine', 6: 'other' });
  assert.equal((await replicas.data(path)).toString(), all);
});

visiting('an undone merge leaves no change of theirs', {}, async (page, visit) => {
  const path = '/conflict/undone';
  await differ(visit, path, linesWith({ 0: 'mine' }), linesWith({ 4: 'theirs' }));
  await said(page, 'Merged without open conflicts: you will save exactly this text.');
  await editor(page).press('Control+z');
  await page.locator('.cm-deletedChunk').waitFor();
  await replicas.create(path, linesWith({ 4: 'theirs', 6: 'other' }), { at: 1 });
  await said(page, 'Merged without open conflicts: you will save exactly this text.');
  await merged(page).click();
  await toasted(page, 'Saved: version 3.');
  const all = linesWith({ 0: 'mine', 4: 'theirs', 6: 'other' });
  assert.equal((await replicas.data(path)).toString(), all);
});

visiting('bytes are shown side by side', {}, async (page, visit) => {
  await replicas.create('/conflict/raw', BROKEN);
  await edit(visit, '/conflict/raw');
  await editor(page).fill('00 01');
  await replicas.create('/conflict/raw', RAW, { at: 1 });
  const both = page.getByRole('group', { name: 'Both' });
  await both.getByText('000000  00 07 0e 15').waitFor();
  await both.getByText('000000  00 01').waitFor();
  assert.equal(await button(page, 'Compare and merge').count(), 0);
  await button(page, 'Keep mine').click();
  await save(page);
  assert.deepEqual(await replicas.data('/conflict/raw'), Buffer.from([0, 1]));
});
