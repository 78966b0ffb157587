// The lines of the charts that several pages show.
import { detailsOf, levels, rates, sum, type Line } from '../lib/series';
import { t } from '../lib/text';
import type { Stats } from '../lib/types';

/** Messages that wait, from queue_totals or a queue. */
export function lengthLines(totals: Stats): Line[] {
  const line = (name: string, colour: string, key: string): Line => ({ name, colour, points: levels(detailsOf(totals, key)) });
  return [
    line(t.overview.ready, 's0', 'messages_ready'),
    line(t.overview.unacked, 's1', 'messages_unacknowledged'),
    line(t.overview.total, 's2', 'messages'),
  ];
}

/** What happens to messages, from message_stats. */
export function rateLines(stats: Stats | undefined): Line[] {
  const of = (...keys: string[]) => sum(...keys.map((key) => rates(detailsOf(stats, key))));
  return [
    { name: t.overview.publish, colour: 's0', points: of('publish') },
    { name: t.overview.confirm, colour: 's3', points: of('confirm') },
    { name: t.overview.deliver, colour: 's1', points: of('deliver', 'deliver_no_ack', 'get', 'get_no_ack') },
    { name: t.overview.ack, colour: 's2', points: of('ack') },
    { name: t.overview.redeliver, colour: 's4', points: of('redeliver') },
  ];
}
