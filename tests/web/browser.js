// A browser, and pages in it that report forbidden events: errors, violations of the policy,
// requests to hosts other than the replicas.

import assert from 'node:assert/strict';
import { existsSync, readFileSync } from 'node:fs';
import { createRequire } from 'node:module';
import { test } from 'node:test';
import { chromium } from 'playwright-core';
import { keepToasts } from './toasts.js';

// The build without a window needs half of the processor time.
const PLACES = ['chromium-headless-shell', 'chromium', 'google-chrome'].map((n) => `/usr/bin/${n}`);
const SKIPPED = 77;
const axeSource = readFileSync(
  createRequire(import.meta.url).resolve('axe-core/axe.min.js'),
  'utf8',
);

export const WIDE = { width: 1280, height: 800 };
export const NARROW = { width: 390, height: 844 };

/** Ends the program as skipped if there is no browser. */
export async function openBrowser() {
  const executablePath = process.env.ZABRA_CHROMIUM ?? PLACES.find(existsSync);
  if (!executablePath) {
    console.log('chromium is not installed');
    process.exit(SKIPPED);
  }
  // The pages are trusted, and the sandbox does not work for root or in a container. Without a GPU,
  // a process for it and one that forks the others only take time.
  return chromium.launch({
    executablePath,
    args: [
      '--no-sandbox',
      '--disable-dev-shm-usage',
      '--disable-gpu',
      '--in-process-gpu',
      '--no-zygote',
    ],
  });
}

/** Pages of visits that have ended, by language. A new page takes more time than many a test. */
const idle = { en: [], zh: [] };

async function newPage(browser, language) {
  const context = await browser.newContext({
    locale: language === 'zh' ? 'zh-CN' : 'en-GB',
    timezoneId: 'UTC',
    reducedMotion: 'reduce',
  });
  await keepToasts(context);
  const page = await context.newPage();
  page.setDefaultTimeout(60_000);
  return page;
}

export class Visit {
  /**
   * Opens a page in an empty profile, or one that an earlier visit has left so. `refused`: answers of
   * REST may be errors; `alters`: it changes more of the page than can be undone, as by a script
   * before those of the page.
   */
  static async begin(
    browser,
    replicas,
    { language = 'en', theme = 'light', viewport = WIDE, refused = false, alters = false } = {},
  ) {
    const visit = new Visit();
    visit.replicas = replicas;
    visit.language = language;
    visit.alters = alters;
    visit.page = (alters ? undefined : idle[language].pop()) ?? (await newPage(browser, language));
    visit.context = visit.page.context();
    await visit.page.setViewportSize(viewport);
    await visit.page.emulateMedia({ colorScheme: theme });
    visit.origins = new Set();
    visit.complaints = [];
    visit.fine = refused
      ? /ERR_CONNECTION|WebSocket connection|status of 4\d\d/
      : /ERR_CONNECTION|WebSocket connection/;
    visit.watch();
    return visit;
  }

  /** Records errors and requests of the page. A lost replica is no complaint. */
  watch() {
    const { page, complaints, fine, replicas } = this;
    const ours = new Set(replicas.ports.map((port) => `127.0.0.1:${port}`));
    page.on('pageerror', (error) => complaints.push(`error: ${error.stack ?? error}`));
    page.on('console', (message) => {
      const text = message.text();
      if (message.type() === 'error' && !fine.test(text)) {
        complaints.push(`console: ${text}`);
      }
    });
    const look = (url) => {
      const { host, protocol } = new URL(url);
      if (!ours.has(host) && !['data:', 'blob:'].includes(protocol)) {
        complaints.push(`a request to ${url}`);
      }
    };
    page.on('request', (request) => look(request.url()));
    page.on('websocket', (socket) => look(socket.url()));
  }

  async open(path, at = 0) {
    this.origins.add(at);
    await this.page.goto(`${this.replicas.url(at)}${path}`);
    await this.page.locator('.lamp.live').waitFor();
  }

  /** Follows a link to another view of the page that is open. */
  async go(path) {
    await this.page.evaluate((href) => {
      const link = document.createElement('a');
      link.href = href;
      document.body.append(link);
      link.click();
      link.remove();
    }, path);
    await this.page.waitForURL((url) => url.pathname + url.search === encodeURI(path));
  }

  /** Violations that axe finds. */
  async barriers() {
    if (!(await this.page.evaluate(() => 'axe' in globalThis))) {
      await this.page.evaluate(axeSource);
    }
    const { violations } = await this.page.evaluate(() =>
      globalThis.axe.run({ resultTypes: ['violations'] }),
    );
    return violations
      .filter(({ impact }) => impact === 'serious' || impact === 'critical')
      .map(({ id, nodes }) => `${id}: ${nodes.map(({ html }) => html).join(' ')}`);
  }

  /** Pixels by which the page is wider than the viewport. */
  excess() {
    return this.page.evaluate(() => {
      const main = document.querySelector('main');
      const root = document.documentElement;
      return Math.max(main.scrollWidth - main.clientWidth, root.scrollWidth - root.clientWidth);
    });
  }

  /** Leaves an empty page to another visit, where this one went well and was at one origin. */
  async end() {
    if (this.alters || this.origins.size > 1 || this.complaints.length > 0) {
      await this.abandon();
      return;
    }
    const { page } = this;
    page.removeAllListeners();
    await page.unrouteAll({ behavior: 'ignoreErrors' });
    await page.mouse.move(0, 0);
    await page.evaluate(() => {
      localStorage.clear();
      sessionStorage.clear();
    });
    // A page without scripts; one of another origin would begin another process.
    const answer = await page.goto(new URL('/livez', page.url()).href).catch(() => undefined);
    if (answer?.ok()) {
      idle[this.language].push(page);
    } else {
      await this.abandon(); // Its replica is lost.
    }
  }

  async abandon() {
    await this.context.close();
  }
}

/**
 * Processor time of the page's thread since the last call in ms; unlike elapsed time it is the same
 * on a busy machine.
 */
export async function processorTime(page) {
  const devtools = await page.context().newCDPSession(page);
  await devtools.send('Performance.enable', { timeDomain: 'threadTicks' });
  const look = async () => {
    const { metrics } = await devtools.send('Performance.getMetrics');
    return metrics.find(({ name }) => name === 'TaskDuration').value * 1_000;
  };
  let last = await look();
  return async () => {
    const before = last;
    last = await look();
    return Math.round(last - before);
  };
}

/**
 * For tests with one visit that must end without a forbidden event. `place` returns the browser and
 * the replicas; `act` gets the page and the visit.
 */
export function visitingBy(place) {
  return (name, options, act) =>
    test(name, async () => {
      const { browser, replicas } = place();
      const visit = await Visit.begin(browser, replicas, options);
      try {
        await act(visit.page, visit);
        assert.deepEqual(visit.complaints, []);
      } catch (error) {
        await visit.abandon();
        throw error;
      }
      await visit.end();
    });
}
