// Who is logged in.
import { Failure, get, request, useSession } from './api';
import type { User } from './types';

const mark = 'warren.session';

class Session {
  user = $state.raw<User>();
  /** checking until the server has said whether there is a session. */
  state = $state<'checking' | 'out' | 'in'>('checking');
  /** ended says that a session was there and is not any more. */
  ended = $state(false);
  unreachable = $state(false);

  /** Takes up the session of the browser's cookie, which no script can see; that there may be one is remembered, so that nobody is refused who has not logged in yet. */
  async restore(): Promise<void> {
    if (!localStorage.getItem(mark)) return this.#leave(false);
    try {
      this.#enter(await get<User>('whoami'));
    } catch (err) {
      this.unreachable = err instanceof Failure && err.status === 0;
      this.#leave(!this.unreachable);
    }
  }

  async login(username: string, password: string): Promise<void> {
    this.#enter(await request<User>('POST', 'login', { body: { username, password } }));
  }

  async logout(): Promise<void> {
    await request('DELETE', 'login').catch(() => {});
    this.#leave(false);
  }

  #enter(user: User): void {
    useSession(user.csrf_token, () => this.#leave(true));
    localStorage.setItem(mark, 'yes');
    this.user = user;
    this.state = 'in';
    this.ended = this.unreachable = false;
  }

  #leave(ended: boolean): void {
    if (!this.unreachable) localStorage.removeItem(mark);
    this.user = undefined;
    this.state = 'out';
    this.ended = ended;
  }

  #has(...tags: string[]): boolean {
    return tags.some((tag) => this.user?.tags.includes(tag));
  }

  get isAdministrator(): boolean {
    return this.#has('administrator');
  }

  get isMonitor(): boolean {
    return this.#has('administrator', 'monitoring');
  }
}

export const session = new Session();
