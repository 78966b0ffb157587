// What a browser remembers of a person's wishes.

export type Theme = 'auto' | 'light' | 'dark';

function read<T extends string>(key: string, allowed: readonly T[], fallback: T): T {
  const value = localStorage.getItem(`warren.${key}`) as T;
  return allowed.includes(value) ? value : fallback;
}

const themes = ['auto', 'light', 'dark'] as const;

/** The ranges of RabbitMQ's charts: age and step of the samples, in seconds. */
export const ranges = { '1m': [60, 5], '10m': [600, 5], '1h': [3600, 60], '8h': [28800, 600], '24h': [86400, 1800] } as const;
export type Range = keyof typeof ranges;

class Settings {
  #theme = $state<Theme>(read('theme', themes, 'auto'));
  #range = $state<Range>(read('range', Object.keys(ranges) as Range[], '10m'));

  get theme(): Theme {
    return this.#theme;
  }

  set theme(theme: Theme) {
    this.#theme = theme;
    localStorage.setItem('warren.theme', theme);
    this.applyTheme();
  }

  get range(): Range {
    return this.#range;
  }

  set range(range: Range) {
    this.#range = range;
    localStorage.setItem('warren.range', range);
  }

  /** auto leaves the choice to the system. */
  applyTheme(): void {
    document.documentElement.dataset.theme = this.#theme;
  }

  nextTheme(): void {
    this.theme = themes[(themes.indexOf(this.#theme) + 1) % themes.length] ?? 'auto';
  }
}

export const settings = new Settings();

/** The query of samples for the kinds that a page shows: lengths, msg_rates, data_rates, node_stats. */
export function samplesQuery(...kinds: string[]): Record<string, number> {
  const [age, step] = ranges[settings.range];
  return Object.fromEntries(kinds.flatMap((kind) => [[`${kind}_age`, age], [`${kind}_incr`, step]]));
}
