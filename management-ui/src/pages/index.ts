// Which page a route shows. The paths are those of RabbitMQ's UI.
import type { Component } from 'svelte';

/** A page takes the names of its route, or nothing; which, its own module knows. */
export type Page = Component<any>;
type Load = () => Promise<{ default: Page }>;

/** Routes by first segment and number of names after it. */
const routes: Record<string, Load> = {
  '/0': () => import('./Overview.svelte'),
  'nodes/1': () => import('./Node.svelte'),
  'connections/0': () => import('./Connections.svelte'),
  'connections/1': () => import('./Connection.svelte'),
  'channels/0': () => import('./Channels.svelte'),
  'channels/1': () => import('./Channel.svelte'),
  'exchanges/0': () => import('./Exchanges.svelte'),
  'exchanges/2': () => import('./Exchange.svelte'),
  'queues/0': () => import('./Queues.svelte'),
  'queues/2': () => import('./Queue.svelte'),
  'users/0': () => import('./Users.svelte'),
  'users/1': () => import('./User.svelte'),
  'vhosts/0': () => import('./VHosts.svelte'),
  'vhosts/1': () => import('./VHost.svelte'),
};

const missing: Load = () => import('./Missing.svelte');

/** The page of a route; one that says so for a route that is not there. */
export function pageOf(page: string, names: number): { load: Load } {
  return { load: routes[`${page}/${names}`] ?? missing };
}
