// Package management is the HTTP side of a node: RabbitMQ's management API as its tools know it, the health endpoints, Prometheus' /metrics, and the files of the
// web UI.
//
// Hop before: an HTTP client (amqpctl, RabbitMQ's tools, a browser, a scraper) through a listener that package internal/node opens. Hop after: reads come from
// the catalogue's View, from quorum.QueueStatus, from the broker's registry, and from the same package on the other nodes (Host.AskNode); writes go through Host.Do, Host.DeleteQueue,
// Host.AddReplica and Host.RemoveReplica; messages are published, got and purged by the broker. One file per resource: overview, nodes, connections, channels, consumers, exchanges, bindings,
// queues, replicas, messages, peek, vhosts, users, permissions, cluster, health. The rest serves all of them: routes (the one list of operations, from which openapi makes the description), router, auth, sessions and access (who may), request and table (JSON in), writer and list (JSON
// out: columns, sorting, pages), errors (the one table from refusals to HTTP), sampler, rates, history and histories (numbers over time), resources (what the process uses), prometheus; questions, peers and pack
// (what nodes ask each other, and how it is written), report and cluster_queues (what they tell once a second, and whose word counts).
//
// Invariants:
//   - A request sees one View from its beginning to its end; it is answered from it but for what it changes itself.
//   - Listing never asks a queue's machine: the sampler visits once a second every queue of which the node has something, hears from the other nodes about those that they lead, and lists read
//     what it noted. One queue asked for alone is exact. Metrics are about this node alone.
//   - A node that does not answer holds no list up for longer than patience, and not again within silence; its queues are shown with the numbers that it last told, and as down.
//   - Every key of an object is always there, with a zero where nothing happened, and an empty object is {}, never [].
//   - Nothing that a client sends is used as a format, a file name or a header value without a check, and no input makes a handler panic; if one does
//     nevertheless, its request ends with 500 and nothing else does.
//   - A user without a tag for management learns nothing; objects are shown by the permissions that the user has, all of them to monitoring and administrator.
package management
