import assert from 'node:assert/strict';
import { after, before, test } from 'node:test';
import { launch, login, open, slowness, tasksDuring } from './stage.js';

let browser;
before(async () => (browser = await launch()));
after(() => browser.close());

// What people notice: a page that is not there after a second, a frame that comes 50 ms late.
const usableMillisMax = 1000;
const taskMillisMax = 50;

test('the list of 10,000 queues is usable within a second, also the second time and sorted by length', async (t) => {
  const page = await open(browser);
  await login(page);
  const row = page.getByRole('cell', { name: 'queue 00000', exact: true });
  const times = {};
  const measure = async (name, act, until) => {
    const before = slowness();
    const from = performance.now();
    await act();
    await until.waitFor();
    const millis = Math.round(performance.now() - from);
    times[name] = { millis, limit: Math.round(usableMillisMax * Math.max(before, slowness())) };
  };
  await measure('first visit', () => page.visit('#/queues'), row);
  await page.getByText('1–100 of 10,000').first().waitFor();
  await page.visit('#/', /.+/);
  await measure('second visit', () => page.visit('#/queues'), row);
  await measure('sorted', () => page.getByRole('columnheader', { name: 'Total' }).getByRole('button').click(), page.locator('th[aria-sort=descending]', { hasText: 'Total' }));
  await measure('filtered', () => page.getByLabel('Filter by name').fill('099'), page.getByText('of 120, filtered from 10,000').first());
  t.diagnostic(`milliseconds until usable: ${JSON.stringify(times)}`);
  for (const [name, { millis, limit }] of Object.entries(times)) assert.ok(millis <= limit, `${name}: ${millis} ms`);
  page.noProblems();
});

test('no task of the main thread holds up scrolling through 500 queues while they are refreshed', async (t) => {
  const page = await open(browser);
  await login(page);
  await page.visit('#/queues?size=500');
  await page.getByText('1–500 of 10,000').first().waitFor();
  await page.evaluate(() => {
    window.tasks = [];
    new PerformanceObserver((list) => window.tasks.push(...list.getEntries().map((e) => Math.round(e.duration)))).observe({ type: 'longtask' });
  });
  // Longer than a round of refreshing, by the wheel as a person does it.
  await page.mouse.move(640, 500);
  let frames = 0;
  const cpu = await tasksDuring(browser, page, async () => {
    for (const until = performance.now() + 7000; performance.now() < until; frames++) {
      await page.mouse.wheel(0, frames % 100 < 50 ? 400 : -400);
      await page.evaluate(() => new Promise((done) => requestAnimationFrame(done)));
    }
  });
  const tasks = await page.evaluate(() => window.tasks); // by the clock, as the browser reports them to a page
  const heap = await page.evaluate(() => performance.memory?.usedJSHeapSize);
  t.diagnostic(`frames: ${frames}; long tasks by the clock: ${JSON.stringify(tasks)}; longest by processor time: ${cpu.slice(0, 8)} ms; heap: ${Math.round(heap / 2 ** 20)} MiB`);
  assert.deepEqual(cpu.filter((millis) => millis > taskMillisMax), []);
  page.noProblems();
});
