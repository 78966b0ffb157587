import { after, before, test } from 'node:test';
import { launch, login, open } from './stage.js';

let browser;
before(async () => (browser = await launch()));
after(() => browser.close());

test('a node that has died is on the first page', async () => {
  const page = await open(browser);
  await login(page);
  await page.getByText('1 node does not answer').waitFor();
  await page.getByRole('row', { name: 'rabbit@n3' }).getByText('not running').waitFor();
  page.noProblems();
});
