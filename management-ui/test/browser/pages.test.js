import assert from 'node:assert/strict';
import { after, before, test } from 'node:test';
import { base, launch, login, open } from './stage.js';

let browser;
before(async () => (browser = await launch()));
after(() => browser.close());

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

test('the overview shows the traffic', async () => {
  const page = await open(browser);
  await login(page);
  await page.getByText('every queue has its replicas').waitFor();
  await page.locator('.tile', { hasText: /Published\s*[1-9]/ }).waitFor();
  await page.getByRole('img', { name: /^Message rates: Publish/ }).locator('canvas').waitFor();
  await page.getByRole('cell', { name: 'amqp', exact: true }).waitFor();
  await page.fits();
  page.noProblems();
});
