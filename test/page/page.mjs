// A page as a user opens it, and what must never happen on it.

import { readFileSync } from 'node:fs';
import { createRequire } from 'node:module';

const axe = readFileSync(createRequire(import.meta.url).resolve('axe-core/axe.min.js'), 'utf8');

export const desktop = { width: 1280, height: 800 };

/**
 * Opens a page in a context of its own. It fails the scenario at its end if the page asked another host for anything,
 * opened a dialog of the browser, broke its policy, or had an error. `offline` permits failed requests.
 */
export async function visit({ browser, open }, url, { viewport = desktop, theme = 'dark', offline = false, ...more } = {}) {
  const context = await browser.newContext({ baseURL: new URL(url).origin, viewport, colorScheme: theme, reducedMotion: 'reduce', ...more });
  const page = await context.newPage();
  page.setDefaultTimeout(60_000);
  const wrong = [];
  const origin = new URL(url).origin;
  page.on('request', (r) => {
    if (new URL(r.url()).origin !== origin && !r.url().startsWith('data:image/')) wrong.push(`a request to ${r.url()}`);
  });
  page.on('dialog', (d) => {
    wrong.push(`a dialog: ${d.message()}`);
    void d.dismiss();
  });
  page.on('popup', (p) => wrong.push(`a popup: ${p.url()}`));
  page.on('download', (d) => !more.acceptDownloads && wrong.push(`a download: ${d.url()}`));
  page.on('pageerror', (e) => wrong.push(`an error: ${e.stack}`));
  page.on('console', (m) => {
    if (m.type() !== 'error') return;
    const failed = m.text().startsWith('Failed to load resource');
    if (!failed || (!offline && !m.text().includes('401'))) wrong.push(`the console: ${m.text()} ${m.location().url}`);
  });
  open.push({ context, page, wrong, check: () => { if (wrong.length > 0) throw new Error(wrong.join('\n')); } });
  await page.goto(url);
  return page;
}

/** Waits until a condition holds. */
export async function until(what, is, timeout = 60_000) {
  let last;
  for (const end = Date.now() + timeout; Date.now() < end; await new Promise((done) => setTimeout(done, 25))) {
    last = await is();
    if (last === true) return;
  }
  throw new Error(`${what}: ${JSON.stringify(last)}`);
}

export function same(what, got, want) {
  const [a, b] = [JSON.stringify(got), JSON.stringify(want)];
  if (a !== b) throw new Error(`${what}: ${a}, want ${b}`);
}

/** Notes each violation of WCAG 2.2 A and AA, and of the best practices of axe, which fail the scenario at its end. */
export async function accessible({ faults }, page, where) {
  await page.evaluate(axe); // not a script of the page: its policy does not apply
  const found = await page.evaluate(async () => {
    const { violations } = await window.axe.run(document, { runOnly: ['wcag2a', 'wcag2aa', 'wcag21a', 'wcag21aa', 'wcag22aa', 'best-practice'] });
    return violations.map((v) => `${v.id}: ${v.help}: ${v.nodes.slice(0, 2).map((n) => `${n.html.slice(0, 200)} ${n.failureSummary?.replaceAll('\n', ' ').slice(0, 200)}`).join(' | ')}`);
  });
  faults.push(...found.map((fault) => `${where}: ${fault}`));
}

/** Fails if the page is wider than its window. */
export async function fits(page, where) {
  const [content, window] = await page.evaluate(() => [document.documentElement.scrollWidth, document.documentElement.clientWidth]);
  if (content > window) throw new Error(`${where}: ${content} px wide in ${window}`);
}

/** Signs in with a new link, and returns the page at a path. */
export async function signedIn(scene, path = '/', options = {}) {
  const link = await scene.call('link');
  const page = await visit(scene, `${link}&next=${encodeURIComponent(path)}`, options);
  await page.getByRole('banner').waitFor();
  return page;
}

export const row = (page, title) => page.getByRole('listitem').filter({ has: page.getByRole('link', { name: title, exact: true }) });

export const live = (page) => page.getByRole('banner').getByText('Live', { exact: true }).waitFor();
