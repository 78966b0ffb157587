// How queues and what belongs to them are shown, wherever they are.
import { get } from '../lib/api';
import type { Kind } from '../lib/arguments';
import { rate, value, visible } from '../lib/format';
import { href } from '../lib/paths';
import { rateOf } from '../lib/series';
import type { Column, Tag, Tone } from '../lib/table';
import { t } from '../lib/text';
import type { Consumer, Queue, Table } from '../lib/types';

/** The arguments that a queue may have and their kinds, for a form: what the broker's own table says. */
export async function queueArguments(): Promise<[string, Kind][]> {
  const list = await get<{ name: string; type: string; applies_to: string[]; state: string }[]>('arguments', { columns: 'name,type,applies_to,state' });
  return list.filter((a) => a.applies_to.includes('queue') && a.state === 'served' && a.name !== 'x-queue-type').map((a) => [a.name, kindOf(a.type)]);
}

function kindOf(type: string): Kind {
  if (type === 'integer' || type === 'milliseconds') return 'number';
  return type.startsWith('boolean') ? 'boolean' : 'string';
}

const tones: Record<string, Tone> = { running: 'good', minority: 'bad', down: 'bad', stopped: 'bad', flow: 'warn' };

export const stateTag = (state: string): Tag => ({ text: state, tone: tones[state] ?? '' });

/** Arguments as labels, the type of a queue left out, for it has a place of its own. */
export function argumentTags(args: Table | undefined): Tag[] {
  const entries = Object.entries(args ?? {}).filter(([key]) => key !== 'x-queue-type');
  return entries.map(([key, v]) => ({ text: `${visible(key)}: ${value(v)}` }));
}

/** What is unusual about an object. */
export function featureTags(o: { durable?: boolean; auto_delete?: boolean; exclusive?: boolean; internal?: boolean; arguments?: Table }): Tag[] {
  const tags: Tag[] = [];
  if (o.durable === false) tags.push({ text: t.feature.transient });
  if (o.auto_delete) tags.push({ text: t.feature.autoDelete });
  if (o.exclusive) tags.push({ text: t.feature.exclusive });
  if (o.internal) tags.push({ text: t.feature.internal });
  const args = argumentTags(o.arguments);
  if (args.length) tags.push({ text: t.feature.args(args.length), title: args.map((a) => a.text).join('\n') });
  return tags;
}

export const queueKey = (q: Queue): string => `${q.vhost}\0${q.name}`;

export const queueRates = ['publish', 'deliver_get', 'ack'] as const;

/** A column of a rate in message_stats. */
export function rateColumn<T extends { message_stats?: Queue['message_stats'] }>(title: string, stat: string): Column<T> {
  return { id: stat, title, num: true, sort: `message_stats.${stat}_details.rate`, cell: (row) => rate(rateOf(row.message_stats, stat)) };
}

export const consumerKey = (c: Consumer): string => `${c.channel_details.name}\0${c.consumer_tag}`;

export function consumerColumns(withQueue: boolean): Column<Consumer>[] {
  return [
    { id: 'tag', title: t.consumer.tag, mono: true, cell: (c) => ({ text: visible(c.consumer_tag) }) },
    withQueue
      ? { id: 'queue', title: t.consumer.queue, cell: (c) => ({ text: visible(c.queue.name), href: href('queues', c.queue.vhost, c.queue.name) }) }
      : { id: 'channel', title: t.consumer.channel, cell: (c) => ({ text: c.channel_details.name, href: href('channels', c.channel_details.name) }) },
    { id: 'user', title: t.connection.user, cell: (c) => ({ text: visible(c.channel_details.user) }) },
    { id: 'state', title: t.queue.state, cell: (c) => ({ tags: [{ text: c.activity_status, tone: c.active ? 'good' : '' }] }) },
    { id: 'ack', title: t.consumer.ack, cell: (c) => (c.ack_required ? t.yes : t.no) },
    { id: 'prefetch', title: t.consumer.prefetch, num: true, cell: (c) => (c.prefetch_count ? String(c.prefetch_count) : t.consumer.unlimited) },
    { id: 'features', title: t.queue.features, cell: (c) => ({ tags: featureTags({ exclusive: c.exclusive, arguments: c.arguments }) }) },
  ];
}
