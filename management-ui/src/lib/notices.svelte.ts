// Short messages about what was done or went wrong.
import { reasonOf } from './api';

export interface Notice {
  id: number;
  text: string;
  bad: boolean;
}

/** How long a message about a success stays; failures stay until they are closed. */
const shownMillis = 5000;
let nextID = 1;

class Notices {
  list = $state.raw<Notice[]>([]);

  say(text: string, bad = false): void {
    const notice = { id: nextID++, text, bad };
    this.list = [...this.list.slice(-3), notice];
    if (!bad) setTimeout(() => this.close(notice.id), shownMillis);
  }

  close(id: number): void {
    this.list = this.list.filter((n) => n.id !== id);
  }

  /** Carries out a change and says how it went; true if it went well. */
  async attempt(change: () => Promise<unknown>, done: string): Promise<boolean> {
    try {
      await change();
    } catch (err) {
      this.say(reasonOf(err), true);
      return false;
    }
    this.say(done);
    return true;
  }
}

export const notices = new Notices();
