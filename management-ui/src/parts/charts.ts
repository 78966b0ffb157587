// The lines of the charts that several pages show.
import { detailsOf, levels, rates, sum, type Line } from '../lib/series';
import { t } from '../lib/text';
import type { Stats } from '../lib/types';

/** Messages that wait, from queue_totals or a queue. */
export function lengthLines(totals: Stats): Line[] {
  const line = (name: string, colour: string, key: string): Line => ({ name, colour, points: levels(detailsOf(totals, key)) });
  // Drawn in this order: where the total is all ready, the ready ones are on top.
  return [
    line(t.overview.total, 's5', 'messages'),
    line(t.overview.ready, 's0', 'messages_ready'),
    line(t.overview.unacked, 's1', 'messages_unacknowledged'),
  ];
}

/** What happens to messages, from message_stats. */
export function rateLines(stats: Stats | undefined): Line[] {
  const of = (...keys: string[]) => sum(...keys.map((key) => rates(detailsOf(stats, key))));
  const lines = [
    { name: t.overview.publish, colour: 's0', points: of('publish') },
    { name: t.overview.confirm, colour: 's3', points: of('confirm') },
    { name: t.overview.deliver, colour: 's1', points: of('deliver', 'deliver_no_ack', 'get', 'get_no_ack') },
    { name: t.overview.ack, colour: 's2', points: of('ack') },
    { name: t.overview.redeliver, colour: 's4', points: of('redeliver') },
  ];
  // A queue has no confirms, a channel may have no publishes: what is never counted has no line.
  const counted = lines.filter((l) => l.points.length > 0);
  return counted.length > 0 ? counted : lines;
}
