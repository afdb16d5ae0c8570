// Finders that the tests of several views share.

import { toasted } from './toasts.js';

export const item = (page, name) =>
  page
    .getByRole('treeitem')
    .filter({ has: page.locator('.name').getByText(name, { exact: true }) });
export const button = (page, name) => page.getByRole('button', { name, exact: true });
/** The heading of a znode: its name and its marks. */
export const heading = (page, name) =>
  page.locator('.znode-heading bdi').getByText(name, { exact: true }).waitFor();
/** The URL follows an action, and may not be there when the action is done. */
export const at = (page, wanted) =>
  page.waitForURL(({ pathname, search }) => pathname + search === wanted);
/**
 * Keys of which each must follow the last one soon: none waits until the page has taken the one
 * before.
 */
export const keys = (page, ...names) => Promise.all(names.map((name) => page.keyboard.press(name)));
export const editor = (page) => page.locator('.cm-content');
export const dialog = (page) => page.getByRole('dialog');

/** Waits until the page shows this text; else fails with what it shows. */
export async function said(page, text) {
  try {
    await page.getByText(text).first().waitFor();
  } catch (error) {
    throw new Error(`not shown: ${text}, but: ${await page.locator('body').textContent()}`, {
      cause: error,
    });
  }
}

/** Waits until the overview shows that all is well. */
export const well = (page) => said(page, 'All is well');

/** Opens a znode and begins to edit it. */
export async function edit(visit, path) {
  const { page } = visit;
  await visit.open(`/ui/tree${encodeURI(path)}`);
  await button(page, 'Edit').click();
  await editor(page).waitFor();
}

export async function save(page) {
  await button(page, 'Save').click();
  await toasted(page, /^Saved: version/);
  await editor(page).waitFor({ state: 'detached' });
}

/** Replicas that wait, and a change that is not committed: as a replica would tell of them. */
export async function withOthers(page) {
  await page.route('**/ensemble/v1', async (route) => {
    const response = await route.fetch();
    const json = await response.json();
    const pending = { version: '0x1000000ff', members: [{ id: 1, role: 'voter' }] };
    const waiting = [{ id: 6, peer: 'zk6:10998', client: 'zk6:9998', zone: 'b', waits_ms: 73_000 }];
    await route.fulfill({ response, json: { ...json, pending, waiting } });
  });
}
