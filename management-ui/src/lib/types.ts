// The answers of the HTTP API, as far as the pages read them.

export type Table = Record<string, unknown>;

export interface Sample {
  sample: number;
  /** timestamp is in milliseconds. */
  timestamp: number;
}

/** Details stand beside every counter and gauge; samples, newest first, only if they were asked for. */
export interface Details {
  rate: number;
  samples?: Sample[];
}

/** Stats has counters, and the details of each under its name and _details. */
export type Stats = { [counter: string]: number | Details | undefined };

export interface Page<T> {
  total_count: number;
  filtered_count: number;
  item_count: number;
  page: number;
  page_size: number;
  page_count: number;
  items: T[];
}

export interface User {
  name: string;
  tags: string[];
  csrf_token?: string;
}

export interface Overview {
  product_name: string;
  product_version: string;
  rabbitmq_version: string;
  cluster_name: string;
  node?: string;
  exchange_types: { name: string; description: string }[];
  message_stats: Stats;
  queue_totals: Stats;
  churn_rates: Stats;
  object_totals: { channels: number; connections: number; consumers: number; exchanges: number; queues: number };
  listeners?: { node: string; protocol: string; ip_address: string; port: number; tls: boolean }[];
  replication?: {
    nodes: number;
    nodes_running: number;
    queues_short: number;
    queues_wanting: number;
    queues_minority: number;
    queues_down: number;
    queues_minority_named: QueueName[];
    queues_down_named: QueueName[];
    queues_short_named: QueueName[];
  };
}

export interface QueueName {
  name: string;
  vhost: string;
}

export interface Node extends Partial<Record<`${string}_details`, Details>> {
  name: string;
  type: string;
  running: boolean;
  os_pid?: string;
  uptime?: number;
  processors?: number;
  being_drained?: boolean;
  applications?: { name: string; version: string }[];
  mem_used?: number;
  mem_limit?: number;
  mem_alarm?: boolean;
  fd_used?: number;
  fd_total?: number;
  sockets_used?: number;
  sockets_total?: number;
  proc_used?: number;
  proc_total?: number;
  disk_free?: number;
  disk_free_limit?: number;
  disk_free_alarm?: boolean;
  db_dir?: string;
  config_files?: string[];
  log_files?: string[];
  erlang_version?: string;
}

export interface Queue extends QueueName {
  type: string;
  durable: boolean;
  auto_delete: boolean;
  exclusive: boolean;
  arguments: Table;
  state: string;
  node?: string;
  leader?: string;
  members?: string[];
  online?: string[];
  policy?: string | null;
  consumers?: number;
  consumer_utilisation?: number;
  messages?: number;
  messages_ready?: number;
  messages_unacknowledged?: number;
  messages_persistent?: number;
  messages_delayed?: number;
  message_bytes?: number;
  messages_details?: Details;
  messages_ready_details?: Details;
  messages_unacknowledged_details?: Details;
  message_stats?: Stats;
  memory?: number;
  idle_since?: string | null;
  created_at?: number;
  changed_arguments?: Table;
  backing_queue_status?: { priority_lengths?: Record<string, number> };
  raft?: { state: string; reason: string; term: number; applied_index: number; checkpoint_index: number; disk_bytes: number };
  consumer_details?: Consumer[];
}

export interface Consumer {
  consumer_tag: string;
  ack_required: boolean;
  active: boolean;
  activity_status: string;
  exclusive: boolean;
  prefetch_count: number;
  arguments: Table;
  queue: QueueName;
  channel_details: { connection_name: string; name: string; number: number; user: string };
}

export interface Replica {
  'Node Name': string;
  'Raft State': string;
  Membership: string;
  'Last Applied': number | '';
  'Commit Index': number | '';
  'Snapshot Index': number | '';
  Term: number | '';
}

export interface Exchange {
  name: string;
  vhost: string;
  type: string;
  durable: boolean;
  auto_delete: boolean;
  internal: boolean;
  arguments: Table;
  message_stats?: Stats;
}

export interface Binding {
  source: string;
  vhost: string;
  destination: string;
  destination_type: 'queue' | 'exchange';
  routing_key: string;
  arguments: Table;
  properties_key: string;
}

export interface Connection {
  name: string;
  user_provided_name?: string;
  node: string;
  state: string;
  user: string;
  vhost: string;
  protocol: string;
  auth_mechanism: string;
  channels: number;
  channel_max: number;
  frame_max: number;
  timeout: number;
  connected_at: number;
  client_properties: Table & { connection_name?: string; product?: string; version?: string; platform?: string };
  host: string;
  port: number;
  peer_host: string;
  peer_port: number;
  ssl: boolean;
  recv_oct: number;
  send_oct: number;
  recv_cnt: number;
  send_pend: number;
  recv_oct_details?: Details;
  send_oct_details?: Details;
}

export interface Channel {
  name: string;
  number: number;
  node: string;
  user: string;
  vhost: string;
  state: string;
  connection_details: { name: string; peer_host: string; peer_port: number };
  confirm: boolean;
  transactional: boolean;
  consumer_count: number;
  messages_unacknowledged: number;
  messages_unconfirmed: number;
  prefetch_count: number;
  global_prefetch_count: number;
  message_stats?: Stats;
  consumer_details?: Consumer[];
}

/** Message is what get and peek return; peek alone tells the fields that may be missing. */
export interface Message {
  payload: string;
  payload_bytes: number;
  payload_encoding: 'string' | 'base64';
  redelivered: boolean;
  exchange: string;
  routing_key: string;
  properties: Table & { headers?: Table };
  message_count?: number;
  position?: number;
  state?: 'ready' | 'unacked';
  delivery_count?: number;
  truncated?: boolean;
  enqueued_at?: number | null;
  consumer_tag?: string;
  channel?: string;
}

export interface VHost {
  name: string;
  description: string;
  tags: string[];
  default_queue_type: string;
  messages?: number;
  messages_ready?: number;
  messages_unacknowledged?: number;
  recv_oct_details?: Details;
  send_oct_details?: Details;
  message_stats?: Stats;
}

export interface Permission {
  user: string;
  vhost: string;
  configure: string;
  write: string;
  read: string;
}

export interface UserRow {
  name: string;
  tags: string[];
  password_hash: string;
  hashing_algorithm: string;
}
