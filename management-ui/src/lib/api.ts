// The one way to the HTTP API: base address, session's CSRF token, errors, the end of a session.
import { Unaddressable, query as encode, type Query } from './paths';
import { t } from './text';
import type { User } from './types';

/** Failure is every way in which a request can go wrong. status is 0 if no answer came. */
export class Failure extends Error {
  constructor(
    readonly status: number,
    /** kind is RabbitMQ's word for the error, as bad_request. */
    readonly kind: string,
    reason: string,
  ) {
    super(reason);
  }
}

interface Options {
  query?: Query;
  body?: unknown;
  signal?: AbortSignal;
  headers?: Record<string, string>;
}

let csrf = '';
let onSessionEnd = (): void => {};

/** useSession sets the token that goes with changes; ended is called once the server no longer knows the session. */
export function useSession(token: string | undefined, ended: () => void): void {
  csrf = token ?? '';
  onSessionEnd = ended;
}

async function send(method: string, path: string, o: Options): Promise<Response> {
  const url = new URL(`api/${path}`, document.baseURI.replace(/#.*$/, ''));
  url.search = encode(o.query ?? {});
  // With this header a refused login comes without the challenge that makes browsers ask for a password themselves.
  const headers: Record<string, string> = { 'X-Requested-With': 'warren-ui', ...o.headers };
  if (method !== 'GET') headers['X-CSRF-Token'] = csrf;
  if (o.body !== undefined) headers['Content-Type'] = 'application/json';
  try {
    return await fetch(url, {
      method,
      headers,
      body: o.body === undefined ? undefined : JSON.stringify(o.body),
      signal: o.signal,
      credentials: 'same-origin',
      cache: 'no-store',
    });
  } catch (err) {
    if (o.signal?.aborted) throw err;
    throw new Failure(0, 'unreachable', t.error.unreachable);
  }
}

async function failureOf(response: Response): Promise<Failure> {
  const text = await response.text().catch(() => '');
  try {
    const { error, reason } = JSON.parse(text) as { error?: unknown; reason?: unknown };
    return new Failure(response.status, String(error ?? ''), typeof reason === 'string' ? reason : JSON.stringify(reason ?? error));
  } catch {
    return new Failure(response.status, '', text.slice(0, 200) || `${response.status} ${response.statusText}`);
  }
}

/** Sends a request and reads its answer: the JSON value, or undefined if there is none. */
export async function request<T = undefined>(method: string, path: string, o: Options = {}): Promise<T> {
  let response = await send(method, path, o);
  if (path !== 'login' && path !== 'whoami' && (response.status === 401 || response.status === 403)) response = await again(response, () => send(method, path, o));
  if (!response.ok) throw await failureOf(response);
  const text = await response.text();
  return (text === '' ? undefined : JSON.parse(text)) as T;
}

/**
 * The API says 401 for an ended session and for a missing permission alike, and 403 for a CSRF token of a session that another tab has replaced. Asking who one is tells them apart.
 */
async function again(refused: Response, retry: () => Promise<Response>): Promise<Response> {
  const who = await send('GET', 'whoami', {});
  if (!who.ok) {
    onSessionEnd();
    return refused;
  }
  const token = ((await who.json()) as User).csrf_token ?? '';
  if (token === csrf) return refused;
  csrf = token;
  return retry();
}

export const get = <T>(path: string, query?: Query, signal?: AbortSignal): Promise<T> => request<T>('GET', path, { query, signal });
export const put = (path: string, body: unknown = {}): Promise<undefined> => request('PUT', path, { body });
export const post = <T = undefined>(path: string, body: unknown): Promise<T> => request<T>('POST', path, { body });
export const del = (path: string, query?: Query, body?: unknown): Promise<undefined> => request('DELETE', path, { query, body });

/** What to tell a person about anything that was thrown. */
export function reasonOf(err: unknown): string {
  if (err instanceof Unaddressable) return t.error.unaddressable(err.name_);
  return err instanceof Error ? err.message : String(err);
}
