// Arguments and headers as rows of a form.
import { visible } from './format';
import { t } from './text';

export type Kind = 'string' | 'number' | 'boolean' | 'json';
export const kinds: Kind[] = ['string', 'number', 'boolean', 'json'];

export interface Row {
  key: string;
  kind: Kind;
  value: string;
}

const bad = (key: string, reason: string) => new Error(`${visible(key)}: ${reason}`);

export const blank = (): Row => ({ key: '', kind: 'string', value: '' });

function read({ key, kind, value }: Row): unknown {
  switch (kind) {
    case 'string':
      return value;
    case 'boolean':
      return value === 'true';
    case 'number': {
      const n = Number(value);
      if (value.trim() === '' || !Number.isFinite(n)) throw bad(key, t.error.number);
      return n;
    }
    case 'json':
      try {
        return JSON.parse(value) as unknown;
      } catch {
        throw bad(key, t.error.json);
      }
  }
}

/** The table that the rows stand for; rows without a key count as not filled in. */
export function tableOf(rows: Row[]): Record<string, unknown> {
  return Object.fromEntries(rows.filter((r) => r.key !== '').map((r) => [r.key, read(r)]));
}
