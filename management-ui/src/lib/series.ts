// Samples of the API to what is drawn.
import type { Details, Sample, Stats } from './types';

/** A line of a chart: points oldest first, times in seconds. */
export interface Line {
  name: string;
  /** colour is a class of app.css: s0 to s5. */
  colour: string;
  points: Sample[];
}

/** Levels as they were sampled, oldest first. */
export function levels(details?: Details): Sample[] {
  return [...(details?.samples ?? [])].reverse();
}

/** Counters as rates between each two samples; a counter that went back, as after a restart, counts as standing still. */
export function rates(details?: Details): Sample[] {
  const points = levels(details);
  return points.slice(1).map((p, i) => {
    const before = points[i]!;
    const seconds = (p.timestamp - before.timestamp) / 1000;
    return { timestamp: p.timestamp, sample: seconds > 0 ? Math.max(0, p.sample - before.sample) / seconds : 0 };
  });
}

/** The details of a counter or gauge. */
export const detailsOf = (stats: Stats | undefined, key: string): Details | undefined => stats?.[`${key}_details`] as Details | undefined;

export const rateOf = (stats: Stats | undefined, key: string): number | undefined => detailsOf(stats, key)?.rate;

/** Adds up counters, as deliver and deliver_no_ack, sample by sample. */
export function sum(...lists: Sample[][]): Sample[] {
  const [first = [], ...more] = lists;
  const others = more.map((list) => new Map(list.map((p) => [p.timestamp, p.sample])));
  return first.map((p) => ({ timestamp: p.timestamp, sample: others.reduce((n, m) => n + (m.get(p.timestamp) ?? 0), p.sample) }));
}

/** Aligns lines on the times of the longest: one row of times, one row of values per line, null where a line has no point. */
export function align(lines: Line[]): [number[], ...(number | null)[][]] {
  const times = lines.reduce<Sample[]>((longest, l) => (l.points.length > longest.length ? l.points : longest), []).map((p) => p.timestamp);
  const rows = lines.map((l) => {
    const values = new Map(l.points.map((p) => [p.timestamp, p.sample]));
    return times.map((at) => values.get(at) ?? null);
  });
  return [times.map((at) => at / 1000), ...rows];
}
