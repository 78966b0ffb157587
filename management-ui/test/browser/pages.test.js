import assert from 'node:assert/strict';
import { mkdirSync } from 'node:fs';
import { after, before, describe, test } from 'node:test';
import { base, launch, login, open } from './stage.js';

let browser;
before(async () => (browser = await launch()));
after(() => browser.close());

/** A page of a logged-in guest. */
async function opened(options) {
  const page = await open(browser, options);
  await login(page);
  return page;
}

/** Confirms a dialog that wants a name typed. */
async function confirm(page, name, action) {
  const dialog = page.getByRole('dialog');
  const button = dialog.getByRole('button', { name: action });
  assert.equal(await button.isDisabled(), true, 'nothing was typed yet');
  await dialog.getByLabel('Type the name to confirm').fill(`${name}x`);
  assert.equal(await button.isDisabled(), true, 'another name was typed');
  await dialog.getByLabel('Type the name to confirm').fill(name);
  await button.click();
  await dialog.waitFor({ state: 'detached' });
}

const done = (page, text) => page.getByRole('status').getByText(text).first().waitFor();
const tab = (page, name) => page.getByRole('navigation', { name: /^Parts/ }).getByRole('link', { name }).click();

test('a wrong password is refused and the right one opens the overview; the session outlives a reload and ends with a logout', async () => {
  const page = await open(browser);
  await page.goto(base);
  await page.getByLabel('User').fill('guest');
  await page.getByLabel('Password').fill('wrong');
  await page.getByRole('button', { name: 'Log in' }).click();
  await page.getByText('Login failed').waitFor();
  page.noProblems('401');
  await login(page);
  const [cookie] = await page.context().cookies();
  assert.deepEqual([cookie.name, cookie.httpOnly, cookie.sameSite], ['warren_session', true, 'Strict']);
  await page.reload();
  await page.getByRole('navigation').waitFor();
  await page.getByRole('button', { name: 'Log out' }).click();
  await page.getByLabel('Password').waitFor();
  await page.reload();
  await page.getByLabel('Password').waitFor();
  page.noProblems();
});

/** scriptBytesMax is what the scripts of the first page may weigh on the wire. */
const scriptBytesMax = 60_000;
/** shiftMax is a hundredth of what counts as good: a figure may grow by a digit. */
const shiftMax = 0.001;

// These wait for rounds of refreshing, so they wait together.
describe('while time passes', { concurrency: true }, () => {
  test('a session that ends on the server leads to the login, and from there back to the page', async () => {
    const page = await opened();
    await page.visit('#/queues/%2F/orders.new', 'orders.new');
    await page.context().clearCookies();
    await page.getByText('The session has ended').waitFor();
    page.noProblems('401');
    await page.getByLabel('User').fill('guest');
    await page.getByLabel('Password').fill('guest');
    await page.getByRole('button', { name: 'Log in' }).click();
    await page.getByRole('heading', { level: 1, name: 'orders.new' }).waitFor();
    page.noProblems();
  });

  test('the overview shows the traffic, is light, and nothing moves when it is refreshed', async (t) => {
    const page = await open(browser);
    let scripts = 0;
    page.on('response', async (r) => {
      if (r.url().endsWith('.js')) scripts += Number(await r.headerValue('content-length'));
    });
    await login(page);
    await page.getByText('every queue has its replicas').waitFor();
    await page.getByRole('img', { name: /^Message rates: Publish [1-9]/ }).locator('canvas').waitFor();
    await page.getByRole('cell', { name: 'amqp', exact: true }).waitFor();
    await page.evaluate(() => {
      window.shifts = [];
      new PerformanceObserver((list) => window.shifts.push(...list.getEntries().map((e) => e.value))).observe({ type: 'layout-shift' });
    });
    for (let round = 0; round < 2; round++) await page.waitForResponse(/api\/overview/);
    await page.evaluate(() => new Promise((done) => requestAnimationFrame(() => requestAnimationFrame(done))));
    const shift = await page.evaluate(() => window.shifts.reduce((sum, value) => sum + value, 0));
    t.diagnostic(`layout shift in two rounds: ${shift}`);
    assert.ok(shift <= shiftMax, `layout shift ${shift}`);
    t.diagnostic(`scripts of login and overview: ${scripts} bytes`);
    assert.ok(scripts > 0 && scripts <= scriptBytesMax, `${scripts} bytes`);
    page.noProblems();
  });

  test('without an answer the page keeps what it has, says so, and goes on when the broker is back', async () => {
    const page = await opened();
    await page.visit('#/queues', 'Queues');
    await page.getByRole('link', { name: 'orders.new' }).waitFor();
    await page.context().setOffline(true);
    await page.getByText('The broker does not answer').waitFor();
    assert.equal(await page.getByRole('link', { name: 'orders.new' }).isVisible(), true);
    await page.context().setOffline(false);
    await page.getByText('The broker does not answer').waitFor({ state: 'detached' });
    page.noProblems('ERR_INTERNET_DISCONNECTED');
  });

  test('updates pause on request', async () => {
    const page = await opened();
    await page.visit('#/queues', 'Queues');
    await page.getByRole('link', { name: 'orders.new' }).waitFor();
    await page.getByRole('button', { name: 'Pause updates' }).click();
    let asked = 0;
    page.on('request', () => asked++);
    await page.waitForTimeout(5500); // longer than a round
    assert.equal(asked, 0);
    await page.getByRole('button', { name: 'Resume updates' }).click();
    await page.waitForRequest(/api\/queues/);
  });
});

test('a queue: declare, find, publish, look, get, bind, unbind, members, purge, delete', async () => {
  const page = await opened();
  await page.visit('#/queues', 'Queues');
  await page.getByRole('button', { name: 'Declare queue' }).click();
  const dialog = page.getByRole('dialog');
  await dialog.getByLabel('Name').fill('ui.test');
  await dialog.getByRole('combobox', { name: 'Type', exact: true }).selectOption('classic');
  await dialog.getByRole('button', { name: '+ Add' }).click();
  await dialog.getByLabel('Key').fill('x-max-priority');
  await dialog.getByLabel('Value').fill('five');
  await dialog.getByRole('button', { name: 'Declare queue' }).click();
  await dialog.getByText('This is not a number').waitFor();
  await dialog.getByLabel('Value').fill('5');
  await dialog.getByRole('button', { name: 'Declare queue' }).click();
  await done(page, 'Queue ui.test is declared');

  await page.getByLabel('Filter by name').fill('UI.T');
  await page.getByText('1–1 of 1').waitFor();
  assert.match(page.url(), /[?&]name=UI\.T/);
  await page.getByLabel('Regex').check();
  await page.getByLabel('Filter by name').fill('(');
  await page.getByRole('alert').waitFor(); // not the list of before
  page.noProblems('400');
  await page.getByLabel('Filter by name').fill('^ui\\.test$');
  await page.getByRole('link', { name: 'ui.test' }).click();
  await page.getByRole('heading', { level: 1, name: 'ui.test' }).waitFor();
  await page.getByText('x-max-priority: 5').waitFor();

  await tab(page, 'Publish');
  await page.getByLabel('Payload', { exact: true }).fill('{"hello":"world"}');
  await page.getByRole('group', { name: 'Headers' }).getByRole('button', { name: '+ Add' }).click();
  await page.getByLabel('Key').fill('colour');
  await page.getByLabel('Value').fill('green');
  await page.getByRole('button', { name: 'Publish message' }).click();
  await done(page, 'The message was published.');

  await tab(page, 'Messages');
  await page.getByText('"hello": "world"').waitFor();
  await page.getByText('green').waitFor();
  assert.equal(await page.getByText('redelivered', { exact: true }).count(), 0);
  await page.getByRole('button', { name: 'Look again' }).click();
  await page.getByRole('button', { name: 'Get messages' }).click();
  await page.getByText('"hello": "world"').nth(1).waitFor();
  await page.getByRole('button', { name: 'Look again' }).click();
  await page.getByText('redelivered', { exact: true }).first().waitFor();

  await tab(page, 'Bindings');
  await page.getByLabel('From exchange').fill('no such exchange');
  await page.getByRole('button', { name: 'Bind', exact: true }).click();
  await page.getByRole('alert').waitFor();
  page.noProblems('404', '400');
  await page.getByLabel('From exchange').fill('orders');
  await page.getByLabel('Routing key').fill('order.ui.#');
  await page.getByRole('button', { name: 'Bind', exact: true }).click();
  await page.getByRole('cell', { name: 'order.ui.#' }).waitFor();
  await page.getByRole('button', { name: 'Unbind' }).click();
  await page.getByRole('cell', { name: 'order.ui.#' }).waitFor({ state: 'detached' });

  await tab(page, /^Members/);
  await page.getByRole('cell', { name: 'leader' }).waitFor();
  await tab(page, /^Consumers/);
  await page.getByText('Nobody consumes').waitFor();

  await tab(page, 'Messages');
  const look = page.locator('section', { hasText: 'Look at messages' });
  await look.getByText('"hello": "world"').waitFor();
  await page.getByRole('button', { name: 'Purge messages' }).click();
  await confirm(page, 'ui.test', 'Purge messages');
  await done(page, 'Queue ui.test is purged');
  await look.getByText('"hello": "world"').waitFor({ state: 'detached' });
  await page.locator('dl.counts', { hasText: /Ready\s*0/ }).waitFor();
  await page.getByRole('button', { name: 'Delete queue' }).click();
  await confirm(page, 'ui.test', 'Delete queue');
  await page.getByRole('heading', { level: 1, name: 'Queues' }).waitFor();
  page.noProblems();
});

test('an exchange: declare, bind, publish, unbind, delete', async () => {
  const page = await opened();
  await page.visit('#/exchanges', 'Exchanges');
  await page.getByRole('button', { name: 'Declare exchange' }).click();
  const dialog = page.getByRole('dialog');
  await dialog.getByLabel('Name').fill('ui.exchange');
  await dialog.getByRole('combobox', { name: 'Type', exact: true }).selectOption('topic');
  await dialog.getByRole('button', { name: 'Declare exchange' }).click();
  await page.getByRole('link', { name: 'ui.exchange' }).click();
  await tab(page, 'Publish');
  await page.getByLabel('Routing key').fill('a.b');
  await page.getByRole('button', { name: 'Publish message' }).click();
  await done(page, 'no queue took it');
  await tab(page, 'Bindings');
  const form = page.locator('section', { hasText: 'Add a binding from this exchange' });
  await form.getByLabel('To', { exact: true }).fill('orders.late');
  await form.getByLabel('Routing key').fill('a.*');
  await form.getByRole('button', { name: 'Bind' }).click();
  await page.getByRole('cell', { name: 'a.*' }).waitFor();
  await tab(page, 'Publish');
  await page.getByLabel('Routing key').fill('a.b');
  await page.getByRole('button', { name: 'Publish message' }).click();
  await done(page, 'The message was published.');
  await tab(page, 'Bindings');
  await page.getByRole('button', { name: 'Unbind' }).click();
  await page.getByRole('cell', { name: 'a.*' }).waitFor({ state: 'detached' });
  await page.getByRole('button', { name: 'Delete exchange' }).click();
  await confirm(page, 'ui.exchange', 'Delete exchange');
  await page.getByRole('heading', { level: 1, name: 'Exchanges' }).waitFor();
  page.noProblems();
});

test('a connection and its channel are shown, and the connection closed', async () => {
  const page = await opened();
  await page.visit('#/connections', 'Connections');
  await page.getByRole('row', { name: 'victim' }).getByRole('link').click();
  await page.getByRole('heading', { level: 1, name: 'victim' }).waitFor();
  await page.getByRole('link', { name: 'Channel 1' }).click();
  await page.getByRole('cell', { name: 'victims-consumer' }).waitFor();
  await page.visit('#/queues/%2F/orders.late?tab=consumers', 'orders.late');
  await page.getByRole('cell', { name: 'victims-consumer' }).waitFor();
  await page.visit('#/connections', 'Connections');
  await page.getByRole('row', { name: 'victim' }).getByRole('link').click();
  await page.getByRole('button', { name: 'Close connection' }).click();
  await page.getByRole('dialog').getByLabel('Reason').fill('seen enough');
  await page.getByRole('dialog').getByRole('button', { name: 'Close connection' }).click();
  await page.getByRole('heading', { level: 1, name: 'Connections' }).waitFor();
  await page.getByRole('row', { name: 'victim' }).waitFor({ state: 'detached' });
  page.noProblems('404'); // the page of the connection may have asked once more
});

test('virtual hosts, users and permissions; a user sees and does what the permissions allow', async () => {
  const page = await opened();
  await page.visit('#/vhosts', 'Virtual hosts');
  await page.getByRole('button', { name: 'Add virtual host' }).click();
  await page.getByRole('dialog').getByLabel('Name').fill('ui/test');
  await page.getByRole('dialog').getByRole('button', { name: 'Add virtual host' }).click();
  await page.getByRole('link', { name: 'ui/test' }).waitFor();

  await page.visit('#/users', 'Users');
  await page.getByRole('button', { name: 'Add user' }).click();
  const dialog = page.getByRole('dialog');
  await dialog.getByLabel('Name').fill('ui-user');
  await dialog.getByLabel('Password').fill('secret');
  await dialog.getByRole('checkbox', { name: /^management/ }).check();
  await dialog.getByRole('button', { name: 'Add user' }).click();
  await page.getByRole('link', { name: 'ui-user' }).click();
  await page.getByText('No permissions').waitFor();
  await page.getByRole('combobox').selectOption('/');
  await page.getByLabel('Configure').fill('^none$');
  await page.getByRole('button', { name: 'Set permission' }).click();
  await page.getByRole('cell', { name: '^none$' }).waitFor();
  await page.getByRole('combobox').selectOption('ui/test');
  await page.getByRole('button', { name: 'Set permission' }).click();
  await page.getByRole('link', { name: 'ui/test' }).waitFor();
  await page.getByRole('row', { name: 'ui/test' }).getByRole('button', { name: 'Clear' }).click();
  await page.getByRole('link', { name: 'ui/test' }).waitFor({ state: 'detached' });
  await page.getByLabel('New password').fill('more secret');
  await page.getByRole('checkbox', { name: /^policymaker/ }).check();
  await page.getByRole('button', { name: 'Save' }).click();
  await done(page, 'User ui-user is saved');

  const other = await open(browser);
  await login(other, 'ui-user', 'more secret');
  await other.getByRole('link', { name: 'Queues' }).first().waitFor();
  assert.equal(await other.getByRole('link', { name: 'Users' }).count(), 0);
  await other.visit('#/users');
  await other.getByText('You may not see this: Not administrator user').waitFor();
  await other.visit('#/queues/%2F/orders.new', 'orders.new');
  await other.getByRole('button', { name: 'Delete queue' }).click();
  await other.getByRole('dialog').getByLabel('Type the name').fill('orders.new');
  await other.getByRole('dialog').getByRole('button', { name: 'Delete queue' }).click();
  await other.getByRole('dialog').getByText(/refused/).waitFor();
  other.noProblems('401', '403');

  await page.getByRole('button', { name: 'Delete user' }).click();
  await confirm(page, 'ui-user', 'Delete user');
  await page.getByRole('heading', { level: 1, name: 'Users' }).waitFor();
  await page.visit('#/vhosts/ui%2Ftest', 'ui/test');
  await page.getByRole('button', { name: 'Delete virtual host' }).click();
  await confirm(page, 'ui/test', 'Delete virtual host');
  await page.getByRole('heading', { level: 1, name: 'Virtual hosts' }).waitFor();
  page.noProblems();
});

test('a list keeps its sorting in the address', async () => {
  const page = await opened();
  await page.visit('#/queues', 'Queues');
  await page.getByRole('columnheader', { name: 'Ready' }).getByRole('button').click();
  await page.locator('th[aria-sort=descending]', { hasText: 'Ready' }).waitFor();
  assert.match(page.url(), /sort=-messages_ready/);
  await page.reload();
  await page.locator('th[aria-sort=descending]', { hasText: 'Ready' }).waitFor();
  page.noProblems();
});

test('what is not there says so', async () => {
  const page = await opened();
  await page.visit('#/queues/%2F/nope');
  await page.getByText('There is no such object').waitFor();
  await page.visit('#/no/such/page');
  await page.getByText('There is no such page').waitFor();
  await page.visit('#/queues/%2F/..');
  await page.getByText('No browser can send a request').waitFor();
  page.noProblems('404');
});

// With WARREN_UI_SHOTS=DIR each page is also kept as a picture.
const shots = process.env.WARREN_UI_SHOTS;
if (shots) mkdirSync(shots, { recursive: true });

const pages = {
  overview: '#/',
  node: '#/nodes/rabbit%40e2e',
  connections: '#/connections',
  channels: '#/channels',
  exchanges: '#/exchanges',
  exchange: '#/exchanges/%2F/orders',
  'exchange-bindings': '#/exchanges/%2F/orders?tab=bindings',
  'exchange-default': '#/exchanges/%2F/amq.default?tab=bindings',
  queues: '#/queues',
  queue: '#/queues/%2F/orders.new',
  'queue-messages': '#/queues/%2F/orders.late?tab=messages',
  'queue-members': '#/queues/%2F/orders.new?tab=members',
  'queue-publish': '#/queues/%2F/orders.new?tab=publish',
  users: '#/users',
  user: '#/users/guest',
  vhosts: '#/vhosts',
  vhost: '#/vhosts/%2F',
};

for (const [width, colorScheme] of [
  [1280, 'light'],
  [1280, 'dark'],
  [390, 'light'],
  [390, 'dark'],
]) {
  test(`every page fits ${width} px, ${colorScheme}`, async () => {
    const page = await opened({ width, colorScheme });
    for (const [name, route] of Object.entries(pages)) {
      await page.visit(route, /.+/);
      await page.locator('[aria-busy=true]').first().waitFor({ state: 'detached' });
      await page.waitForLoadState('networkidle');
      await page.fits();
      if (shots) await page.screenshot({ path: `${shots}/${name}-${width}-${colorScheme}.png`, fullPage: true });
    }
    page.noProblems();
  });
}
