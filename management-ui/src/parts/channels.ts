// The columns of a list of channels.
import { count, visible } from '../lib/format';
import { href } from '../lib/paths';
import type { Column, Tag } from '../lib/table';
import { t } from '../lib/text';
import type { Channel } from '../lib/types';
import { rateColumn, stateTag } from './queues';

export function modeTags(c: Channel): Tag[] {
  const tags: Tag[] = [];
  if (c.confirm) tags.push({ text: t.channel.confirms });
  if (c.transactional) tags.push({ text: t.channel.transactional });
  return tags;
}

export function channelColumns(ofConnection: boolean): Column<Channel>[] {
  const columns: Column<Channel>[] = [
    { id: 'name', title: t.table.name, sort: 'name', cell: (c) => ({ text: ofConnection ? t.channel.number(c.number) : `${c.connection_details.peer_host}:${c.connection_details.peer_port} (${c.number})`, title: visible(c.name), href: href('channels', c.name) }) },
    { id: 'vhost', title: t.table.vhost, sort: 'vhost', cell: (c) => ({ text: visible(c.vhost) }) },
    { id: 'user', title: t.connection.user, sort: 'user', cell: (c) => ({ text: visible(c.user) }) },
    { id: 'state', title: t.queue.state, sort: 'state', cell: (c) => ({ tags: [stateTag(c.state), ...modeTags(c)] }) },
    { id: 'prefetch', title: t.consumer.prefetch, num: true, sort: 'prefetch_count', cell: (c) => (c.prefetch_count ? count(c.prefetch_count) : t.consumer.unlimited) },
    { id: 'consumers', title: t.queue.consumers, num: true, sort: 'consumer_count', cell: (c) => count(c.consumer_count) },
    { id: 'unacked', title: t.queue.unacked, num: true, sort: 'messages_unacknowledged', cell: (c) => count(c.messages_unacknowledged) },
    { id: 'unconfirmed', title: t.channel.unconfirmed, num: true, sort: 'messages_unconfirmed', cell: (c) => count(c.messages_unconfirmed) },
    rateColumn(t.overview.publish, 'publish'),
    rateColumn(t.queue.out, 'deliver_get'),
    rateColumn(t.queue.acked, 'ack'),
  ];
  return ofConnection ? columns.filter((c) => c.id !== 'vhost' && c.id !== 'user') : columns;
}

export const channelFields = [
  ...['name', 'number', 'connection_details', 'vhost', 'user', 'state', 'confirm', 'transactional', 'prefetch_count', 'consumer_count', 'messages_unacknowledged', 'messages_unconfirmed'],
  ...['publish', 'deliver_get', 'ack'].map((stat) => `message_stats.${stat}_details.rate`),
];
