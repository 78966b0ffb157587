// The browser and what every page is held to: no error on the console, nothing that the content security policy forbids, no sideways scrolling of the page.
import assert from 'node:assert/strict';
import { existsSync } from 'node:fs';
import { build } from 'esbuild';
import { chromium } from 'playwright-core';

// As the app makes names visible; see format.ts, which has unit tests of its own.
const { outputFiles } = await build({ entryPoints: ['src/lib/format.ts'], bundle: true, format: 'esm', write: false });
export const { visible } = await import(`data:text/javascript,${encodeURIComponent(outputFiles[0].text)}`);

export const base = process.env.WARREN_UI ?? 'http://127.0.0.1:15672/';

const browsers = [process.env.CHROMIUM, '/usr/bin/chromium', '/usr/bin/chromium-browser', '/usr/bin/google-chrome'];

// Without these Chromium talks to its maker.
const quiet = ['--no-first-run', '--disable-background-networking', '--disable-component-update', '--disable-sync', '--disable-quic', '--disable-gpu'];

export async function launch() {
  const executablePath = browsers.find((path) => path && existsSync(path));
  assert.ok(executablePath, 'Chromium is not installed (Debian: apt-get install chromium); its path may be given as CHROMIUM');
  return chromium.launch({ executablePath, args: [...quiet, ...(process.getuid?.() === 0 ? ['--no-sandbox'] : [])] });
}

/** Opens a page that collects what goes wrong in it. allowed are texts of errors that a test makes on purpose. */
export async function open(browser, { width = 1280, height = 900, ...options } = {}) {
  const context = await browser.newContext({ viewport: { width, height }, ...options });
  context.setDefaultTimeout(20_000);
  const page = await context.newPage();
  const problems = [];
  page.on('console', (m) => m.type() === 'error' && problems.push(`console: ${m.text()} (${m.location().url})`));
  page.on('pageerror', (e) => problems.push(`uncaught: ${e.stack}`));
  page.on('dialog', (d) => (problems.push(`a script opened a dialog: ${d.message()}`), d.dismiss()));
  await page.addInitScript(() => {
    addEventListener('securitypolicyviolation', (e) => console.error(`policy: ${e.violatedDirective} forbids ${e.blockedURI} ${e.sample}`));
  });
  return Object.assign(page, {
    /** Fails if anything went wrong since the last call, but for what the test wanted. */
    noProblems(...allowed) {
      const rest = problems.splice(0).filter((p) => !allowed.some((a) => p.includes(a)));
      assert.deepEqual(rest, []);
    },
    /** Goes to a route and waits for its heading. */
    async visit(route, heading) {
      await page.evaluate((hash) => (location.hash = hash), route);
      if (heading !== undefined) await page.getByRole('heading', { level: 1, name: heading }).waitFor();
    },
    async fits() {
      const [content, view] = await page.evaluate(() => [document.documentElement.scrollWidth, document.documentElement.clientWidth]);
      assert.ok(content <= view, `${page.url()} scrolls sideways: ${content} > ${view}`);
    },
  });
}

export async function login(page, user = 'guest', password = 'guest') {
  await page.goto(base);
  await page.getByLabel('User').fill(user);
  await page.getByLabel('Password').fill(password);
  await page.getByRole('button', { name: 'Log in' }).click();
  await page.getByRole('navigation').waitFor();
}

/** How many times longer than its processor time a busy loop takes now: 1 on a quiet machine, more where others run, too. Limits in time are scaled by it. */
export function slowness() {
  const from = performance.now();
  const before = process.cpuUsage();
  let used;
  do used = process.cpuUsage(before);
  while (used.user + used.system < 100_000);
  return Math.max(1, (performance.now() - from) / 100);
}

/** Does something and returns the processor time in ms of each task of the page's main thread meanwhile, longest first. Unlike the time by the clock it does not depend on what else runs. */
export async function tasksDuring(browser, page, act) {
  await browser.startTracing(page, { categories: ['toplevel', '__metadata'] });
  await act();
  const { traceEvents } = JSON.parse(await browser.stopTracing());
  const main = new Set(traceEvents.filter((e) => e.name === 'thread_name' && e.args.name === 'CrRendererMain').map((e) => `${e.pid} ${e.tid}`));
  const tasks = traceEvents.filter((e) => e.ph === 'X' && /RunTask$/.test(e.name) && main.has(`${e.pid} ${e.tid}`)).map((e) => Math.round((e.tdur ?? e.dur) / 1000));
  assert.ok(tasks.length > 0, 'the trace has no tasks');
  return tasks.sort((a, b) => b - a);
}
