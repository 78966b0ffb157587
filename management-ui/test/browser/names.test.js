import assert from 'node:assert/strict';
import { after, before, test } from 'node:test';
import { base, launch, login, open, visible } from './stage.js';

let browser;
before(async () => (browser = await launch()));
after(() => browser.close());

const attack = '<img src=x onerror=alert(1)>"\'\r\n';
/** Queues and exchanges lose line breaks when they are declared, as in RabbitMQ. */
const line = attack.replace(/[\r\n]/g, '');
const names = ['%2F', '100% sure', '%', 'a/b', '../up', '?q=1#f', 'a+b c', ' ', 'ünïcode 🐇', '</script><script>alert(1)</script>', '{{7*7}}', 'x\u202egnp.exe', '...'];

const api = async (method, path, body) => {
  const response = await fetch(`${base}api/${path}`, { method, body: body && JSON.stringify(body), headers: { Authorization: `Basic ${btoa('guest:guest')}` } });
  assert.ok(response.ok, `${method} ${path}: ${response.status} ${await response.text()}`);
};
const e = encodeURIComponent;

async function remove(page, action, name) {
  await page.getByRole('button', { name: action }).click();
  const dialog = page.getByRole('dialog');
  await dialog.getByLabel('Type the name').fill(visible(name));
  await dialog.getByRole('button', { name: action }).click();
  await dialog.waitFor({ state: 'detached' });
}

/** The text of the heading must be the name as it can be seen, to the letter. */
async function wantHeading(page, name) {
  await page.waitForFunction((text) => document.querySelector('h1 .name')?.textContent === text, visible(name));
}

for (const [kind, list, first, path, body] of [
  ['queue', 'queues', line, (n) => `queues/%2F/${e(n)}`, { durable: true }],
  ['exchange', 'exchanges', line, (n) => `exchanges/%2F/${e(n)}`, { type: 'fanout' }],
  ['user', 'users', attack, (n) => `users/${e(n)}`, { password: 'p', tags: 'management' }],
  ['virtual host', 'vhosts', attack, (n) => `vhosts/${e(n)}`, {}],
]) {
  test(`a ${kind} with any name is text, has an address and can be deleted`, async () => {
    for (const name of [first, ...names]) await api('PUT', path(name), body);
    const page = await open(browser);
    await login(page);
    for (const name of [first, ...names]) {
      // By the link in the list, filtered by the very name.
      await page.visit(`#/${list}?name=${e(name)}`, /.+/);
      const link = page.locator('td a.name').filter({ has: page.locator(`xpath=self::*[.=${xpath(visible(name))}]`) });
      await link.first().click();
      await wantHeading(page, name);
      assert.equal(new URL(page.url()).hash, `#/${path(name)}`);
      await remove(page, `Delete ${kind}`, name);
      await page.waitForFunction((hash) => location.hash === hash, `#/${list}`);
      const gone = await fetch(`${base}api/${path(name)}`, { headers: { Authorization: `Basic ${btoa('guest:guest')}` } });
      assert.equal(gone.status, 404, name);
    }
    assert.equal(await page.locator('img[src=x]').count(), 0);
    page.noProblems('404'); // of a refresh that met a deletion on the way
  });
}

/** A string of XPath, which has no escapes. */
function xpath(text) {
  return `concat(${text.split("'").map((part) => `'${part}'`).join(`,"'",`)},'')`;
}

test('odd names elsewhere: routing keys, arguments, headers, payloads, consumers and connections are text, too', async () => {
  await api('PUT', `queues/%2F/${e(line)}`, { durable: true, arguments: { [attack]: attack } });
  await api('POST', `bindings/%2F/e/amq.topic/q/${e(line)}`, { routing_key: attack, arguments: { [attack]: attack } });
  await api('POST', 'exchanges/%2F/amq.default/publish', {
    routing_key: line,
    payload: attack,
    payload_encoding: 'string',
    properties: { type: attack, headers: { [attack]: attack } },
  });
  const page = await open(browser);
  await login(page);
  const text = visible(attack);
  const route = `#/queues/%2F/${e(line)}`;
  await page.visit(route, line);
  await page.getByText(`${text}: ${text}`).first().waitFor();
  await page.visit(`${route}?tab=messages`, line);
  await page.locator('dd', { hasText: text }).first().waitFor();
  await page.locator('pre', { hasText: '<img src=x onerror=alert(1)>' }).waitFor();
  await page.visit(`${route}?tab=bindings`, line);
  const row = page.getByRole('row', { name: 'amq.topic' });
  await row.getByText(text, { exact: true }).waitFor();
  await row.getByRole('button', { name: 'Unbind' }).click();
  await row.waitFor({ state: 'detached' });
  await remove(page, 'Delete queue', line);
  page.noProblems();
});
