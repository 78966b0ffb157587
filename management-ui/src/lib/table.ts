// What the columns of a table are.

export type Tone = '' | 'good' | 'warn' | 'bad';

export interface Tag {
  text: string;
  tone?: Tone;
  title?: string;
}

/** A cell is text, with a link or labels if there are any. It is never markup. */
export type Cell = string | { text?: string; href?: string; title?: string; tags?: Tag[]; sub?: string };

export interface Column<T> {
  id: string;
  title: string;
  cell: (row: T) => Cell;
  /** num sets figures to the right. */
  num?: boolean;
  /** mono is for names that machines made. */
  mono?: boolean;
  /** sort is the API's key to sort by; without one the column cannot be sorted. */
  sort?: string;
}
