// Finders that the tests of several views share.

export const item = (page, name) =>
  page
    .getByRole('treeitem')
    .filter({ has: page.locator('.name').getByText(name, { exact: true }) });
export const button = (page, name) => page.getByRole('button', { name, exact: true });
/** The heading of a znode: its name and its marks. */
export const heading = (page, name) =>
  page.locator('.znode-heading bdi').getByText(name, { exact: true }).waitFor();
export const said = (page, text) => page.getByText(text).first().waitFor();
export const editor = (page) => page.locator('.cm-content');
export const dialog = (page) => page.getByRole('dialog');

/** Opens a znode and begins to edit it. */
export async function edit(visit, path) {
  const { page } = visit;
  await visit.open(`/ui/tree${encodeURI(path)}`);
  await button(page, 'Edit').click();
  await editor(page).waitFor();
}

export async function save(page) {
  await button(page, 'Save').click();
  await said(page, /^Saved: version/);
  await editor(page).waitFor({ state: 'detached' });
}
