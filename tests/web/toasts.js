// Toasts go away by themselves, so a test that looks for one on the page may look too late. The page
// records each, and the test waits for the record.

const WAIT_MS = 60_000;

/** Runs in the page, before its own code. */
function record() {
  const kept = []; // Texts that no test has waited for yet.
  const idle = () => undefined;
  let look = idle;
  const add = (node) => {
    if (node.matches?.('.toast') && node.checkVisibility()) {
      kept.push(node.querySelector('span').textContent);
      look();
    }
  };
  const added = (records) => {
    for (const { addedNodes } of records) {
      addedNodes.forEach(add);
    }
  };
  const place = new MutationObserver(() => {
    const toasts = document.querySelector('.toasts');
    if (toasts) {
      place.disconnect();
      new MutationObserver(added).observe(toasts, { childList: true });
    }
  });
  place.observe(document, { childList: true, subtree: true });
  globalThis.takeToast = (source, ms) =>
    new Promise((resolve, reject) => {
      const late = setTimeout(() => reject(new Error(`no toast ${source} in ${kept}`)), ms);
      look = () => {
        const found = kept.findIndex((text) => RegExp(source).test(text));
        if (found >= 0) {
          kept.splice(found, 1);
          look = idle;
          clearTimeout(late);
          resolve();
        }
      };
      look();
    });
}

export function keepToasts(context) {
  return context.addInitScript(record);
}

/** Waits for a toast that was shown since the page was loaded; each counts once. */
export function toasted(page, text) {
  const source = text instanceof RegExp ? text.source : `^${RegExp.escape(text)}$`;
  return page.evaluate(([pattern, ms]) => globalThis.takeToast(pattern, ms), [source, WAIT_MS]);
}
