// Names to paths and back. RabbitMQ's UI has the same hash routes, so links in run books go on working: #/queues/%2F/orders.

/** A name that no URL of a browser can hold: it takes these segments, encoded or not, for steps in the path. */
export class Unaddressable extends Error {
  constructor(readonly name_: string) {
    super(name_);
  }
}

/** One segment of a path. Half a surrogate pair, which cannot be encoded, becomes U+FFFD as everywhere else. */
export function segment(name: string): string {
  return encodeURIComponent(name.replace(/\p{Surrogate}/gu, '\ufffd'));
}

/** Builds the path of an API resource, each name as one segment: api`queues/${vhost}/${queue}`. */
export function api(parts: TemplateStringsArray, ...names: (string | number)[]): string {
  let path = parts[0] ?? '';
  names.forEach((name, i) => {
    const text = String(name);
    if (text === '.' || text === '..') throw new Unaddressable(text);
    path += segment(text) + (parts[i + 1] ?? '');
  });
  return path;
}

/** The name by which paths know an exchange; the default one has none. */
export const exchangeInPath = (name: string): string => (name === '' ? 'amq.default' : name);

export type Query = Record<string, string | number | boolean | undefined>;

/** The query part without its question mark; what is undefined, empty or false is left out. */
export function query(q: Query): string {
  const out = new URLSearchParams();
  for (const [key, value] of Object.entries(q)) if (value !== undefined && value !== '' && value !== false) out.set(key, String(value));
  return out.toString();
}

/** A link to a page: href('queues', vhost, name). */
export function href(page: string, ...names: string[]): string {
  return ['#', page, ...names.map(segment)].join('/').replace(/^#\/$/, '#/');
}

export interface Place {
  /** page is the first segment, empty for the overview. */
  page: string;
  /** names are the further segments, decoded. */
  names: string[];
  query: Record<string, string>;
}

function decode(text: string): string {
  try {
    return decodeURIComponent(text);
  } catch {
    return text; // typed by hand, with a % of its own
  }
}

/** Reads the hash of an address. */
export function parse(hash: string): Place {
  const [path = '', ...rest] = hash.replace(/^#?\/?/, '').split('?');
  const segments = path.replace(/\/$/, '').split('/').map(decode);
  return { page: segments[0] ?? '', names: segments.slice(1), query: Object.fromEntries(new URLSearchParams(rest.join('?'))) };
}

/** Writes a place as a hash. */
export function format(p: Place): string {
  const q = query(p.query);
  return href(p.page, ...p.names) + (q && `?${q}`);
}
