// How the state of a node is shown.
import type { Tag } from '../lib/table';
import { t } from '../lib/text';
import type { Node } from '../lib/types';

export function nodeTags(n: Node): Tag[] {
  if (!n.running) return [{ text: t.node.stopped, tone: 'bad' }];
  const tags: Tag[] = [{ text: t.node.running, tone: 'good' }];
  if (n.being_drained) tags.push({ text: t.node.drained, tone: 'warn' });
  if (n.mem_alarm) tags.push({ text: t.node.alarmMemory, tone: 'bad' });
  if (n.disk_free_alarm) tags.push({ text: t.node.alarmDisk, tone: 'bad' });
  return tags;
}
