// What the tests of several views look for.

export const item = (page, name) =>
  page
    .getByRole('treeitem')
    .filter({ has: page.locator('.name').getByText(name, { exact: true }) });
export const button = (page, name) => page.getByRole('button', { name, exact: true });
/** Its name, and whatever is marked behind it. */
export const heading = (page, name) =>
  page.locator('.znode-heading bdi').getByText(name, { exact: true }).waitFor();
export const said = (page, text) => page.getByText(text).first().waitFor();
export const editor = (page) => page.locator('.cm-content');
export const dialog = (page) => page.getByRole('dialog');
