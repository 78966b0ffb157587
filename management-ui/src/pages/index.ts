// Which page a route shows. The paths are those of RabbitMQ's UI.
import type { Component } from 'svelte';

/** A page takes the names of its route, or nothing; which, its own module knows. */
export type Page = Component<any>;
type Load = () => Promise<{ default: Page }>;

/** Routes by first segment and number of names after it. */
const routes: Record<string, Load> = {
  '/0': () => import('./Overview.svelte'),
};

const missing: Load = () => import('./Missing.svelte');

/** The page of a route; one that says so for a route that is not there. */
export function pageOf(page: string, names: number): { load: Load } {
  return { load: routes[`${page}/${names}`] ?? missing };
}
