import { after, before, test } from 'node:test';
import { launch, login, open } from './stage.js';

let browser;
before(async () => (browser = await launch()));
after(() => browser.close());

test('a member of a queue is removed and added again', async () => {
  const page = await open(browser);
  await login(page);
  await page.getByText('all 3 nodes running').waitFor();
  await page.visit('#/queues/%2F/replicated?tab=members', 'replicated');
  const members = page.getByRole('region', { name: 'Members' });
  const last = members.getByRole('row', { name: 'rabbit@n3' });
  await last.getByRole('button', { name: 'Remove' }).click();
  await page.getByRole('dialog').getByRole('button', { name: 'Remove member' }).click();
  await last.waitFor({ state: 'detached' });
  await page.getByRole('button', { name: 'Add a member' }).click();
  await last.getByText(/follower|leader/).waitFor();
  page.noProblems();
});
