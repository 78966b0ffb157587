// The address bar is the state of the lists: page, sorting and filter stand in the query part of the hash.
import { format, parse, type Place } from './paths';

class Router {
  place = $state.raw<Place>(parse(location.hash));

  constructor() {
    addEventListener('hashchange', () => (this.place = parse(location.hash)));
  }

  /** Goes to a link that href made. */
  go(link: string): void {
    location.hash = link;
  }

  /** Changes keys of the query part, in place; undefined takes a key away. */
  setQuery(change: Record<string, string | undefined>): void {
    const query = { ...this.place.query };
    for (const [key, value] of Object.entries(change)) {
      if (value === undefined || value === '') delete query[key];
      else query[key] = value;
    }
    this.place = { ...this.place, query };
    history.replaceState(null, '', format(this.place));
  }
}

export const router = new Router();
