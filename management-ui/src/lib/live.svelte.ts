// What a page shows is asked anew every few seconds, but not while nobody looks.
import { untrack } from 'svelte';
import { Failure, reasonOf } from './api';

/** periodMillis is the time between two rounds. */
export const periodMillis = 5000;
/** staleMillis is the age from which data is marked as old. */
const staleMillis = 3 * periodMillis;

class Refresh {
  /** paused is the user's wish; while the page is hidden nothing is asked either. */
  paused = $state(false);
  now = $state(Date.now());
  /** lastGood is when an answer came at last. */
  lastGood = $state(Date.now());
  unreachable = $state(false);
  /** held is set while the object of the page is being deleted: nobody asks for what is going. */
  held = false;
  #live = new Set<() => void>();

  constructor() {
    setInterval(() => {
      if (document.hidden) return;
      this.now = Date.now();
      if (!this.paused) this.all();
    }, periodMillis);
    document.addEventListener('visibilitychange', () => {
      this.now = Date.now();
      if (!document.hidden && !this.paused) this.all();
    });
  }

  /** Asks for everything that is shown, now. */
  all(): void {
    if (this.held) return;
    for (const load of this.#live) load();
  }

  add(load: () => void): () => void {
    this.#live.add(load);
    return () => this.#live.delete(load);
  }

  heard(failure?: Failure): void {
    this.unreachable = failure?.status === 0;
    if (!this.unreachable) this.lastGood = Date.now();
    this.now = Date.now();
  }

  get stale(): boolean {
    return this.now - this.lastGood > staleMillis;
  }
}

export const refresh = new Refresh();

/** Live is a value of the server that is kept up to date while its component is there. */
export class Live<T> {
  data = $state.raw<T>();
  failure = $state.raw<Failure>();
  loading = $state(true);
  #load: () => void = () => {};

  /** load is called at once, in every round, and when something reactive that it reads before its first await has changed. If it returns undefined there is nothing to ask. */
  constructor(load: (signal: AbortSignal) => Promise<T> | undefined) {
    $effect(() => {
      let flying: AbortController | undefined;
      const run = (urgent: boolean): void => {
        if (flying && !urgent) return; // the last answer is not here yet
        flying?.abort();
        const abort = new AbortController();
        let answer: Promise<T> | undefined;
        try {
          answer = load(abort.signal);
        } catch (err) {
          answer = Promise.reject(err);
        }
        if (!answer) return;
        flying = abort;
        untrack(() => (this.loading = true));
        answer
          .then(
            (data) => {
              if (abort.signal.aborted) return;
              this.data = data;
              this.failure = undefined;
              refresh.heard();
            },
            (err: unknown) => {
              if (abort.signal.aborted) return;
              this.failure = err instanceof Failure ? err : new Failure(-1, 'bug', reasonOf(err));
              refresh.heard(this.failure);
            },
          )
          .finally(() => {
            if (abort.signal.aborted) return;
            flying = undefined;
            this.loading = false;
          });
      };
      run(true);
      this.#load = () => run(true);
      const remove = refresh.add(() => run(false));
      return () => {
        remove();
        flying?.abort();
      };
    });
  }

  /** Asks now, as after a change: an answer that is under way does not count. */
  reload(): void {
    this.#load();
  }
}
