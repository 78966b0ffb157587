// Deleting what a page is about, and going where it was listed.
import { refresh } from './live.svelte';
import { notices } from './notices.svelte';
import { router } from './router.svelte';

/** Carries out the deletion, says so, and goes on to a link; the shell lets refreshing go on there. Throws what the deletion throws. */
export async function leave(deletion: () => Promise<unknown>, said: string, to: string): Promise<void> {
  refresh.held = true;
  try {
    await deletion();
  } catch (err) {
    refresh.held = false;
    throw err;
  }
  notices.say(said);
  router.go(to);
}
