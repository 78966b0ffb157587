// Numbers, sizes and times as people read them. All take undefined for "not known".

const none = '–';
const whole = new Intl.NumberFormat('en');
const tenth = new Intl.NumberFormat('en', { maximumFractionDigits: 1 });
const small = new Intl.NumberFormat('en', { maximumFractionDigits: 2 });

const known = (n: unknown): n is number => typeof n === 'number' && Number.isFinite(n);

export const count = (n?: number | null): string => (known(n) ? whole.format(n) : none);

/** A count in the width of a tile or an axis: 950, 12.3k, 4.1M. */
export function short(n?: number | null): string {
  if (!known(n)) return none;
  for (const [unit, size] of [['G', 1e9], ['M', 1e6], ['k', 1e4]] as const) {
    if (Math.abs(n) >= size) return tenth.format(n / (unit === 'k' ? 1e3 : size)) + unit;
  }
  return tenth.format(n);
}

/** Per second. Less than a hundredth counts as nothing. */
export function rate(n?: number | null): string {
  if (!known(n)) return none;
  const size = Math.abs(n);
  if (size < 0.005) return '0/s';
  return `${(size >= 100 ? whole : size >= 10 ? tenth : small).format(size >= 100 ? Math.round(n) : n)}/s`;
}

export function bytes(n?: number | null): string {
  if (!known(n)) return none;
  const units = ['B', 'KiB', 'MiB', 'GiB', 'TiB', 'PiB'];
  let unit = 0;
  let value = n;
  while (Math.abs(value) >= 1024 && unit < units.length - 1) {
    value /= 1024;
    unit++;
  }
  return `${(unit === 0 || value >= 100 ? whole : tenth).format(unit === 0 ? value : value >= 100 ? Math.round(value) : value)} ${units[unit]}`;
}

export function percent(part?: number, of?: number): string {
  return known(part) && known(of) && of > 0 ? `${tenth.format((100 * part) / of)} %` : none;
}

/** A span of time in its two largest units. */
export function span(ms?: number | null): string {
  if (!known(ms)) return none;
  const seconds = Math.max(0, Math.round(ms / 1000));
  const parts = [
    [Math.floor(seconds / 86400), 'd'],
    [Math.floor(seconds / 3600) % 24, 'h'],
    [Math.floor(seconds / 60) % 60, 'm'],
    [seconds % 60, 's'],
  ] as const;
  const first = parts.findIndex(([n]) => n > 0);
  if (first < 0) return '0 s';
  return parts
    .slice(first, first + 2)
    .filter(([n], i) => i === 0 || n > 0)
    .map(([n, unit]) => `${n} ${unit}`)
    .join(' ');
}

const stamp = new Intl.DateTimeFormat('sv-SE', { dateStyle: 'short', timeStyle: 'medium' });

/** Local date and time, as in 2026-03-01 14:05:09. */
export const time = (ms?: number | null): string => (known(ms) ? stamp.format(ms) : none);

const control = /[\u0000-\u001f\u007f-\u009f\u200b-\u200f\u2028-\u202e\u2060-\u2069\ufeff]/g;

/** A name as it can be seen: characters that show nothing, or that change how others show, become signs. */
export function visible(name: string): string {
  return name.replace(control, (c) => {
    const code = c.charCodeAt(0);
    if (code < 0x20) return String.fromCharCode(0x2400 + code);
    return code === 0x7f ? '\u2421' : `\\u${code.toString(16).padStart(4, '0')}`;
  });
}

/** A value of a table of arguments or headers, in one line. */
export function value(v: unknown): string {
  return typeof v === 'string' ? visible(v) : JSON.stringify(v) ?? none;
}
