// Package meta is the catalogue of a cluster as one deterministic machine: nodes, virtual hosts, users, permissions, exchanges, queues and bindings.
//
// It runs in one Raft group (shard 1) on every node. Commands go in; a Reply and effects come out; View gives an immutable picture that readers keep
// as long as they like, for versions share structure (internal/cow).
//
// Hop before: broker and management check a command against a View (the Check functions: argument values, names, patterns), then quorum
// proposes it, alone or in a batch. Hop after: quorum hands the effects to the shells (start and stop queues, drop permission caches, close
// connections), and exchange.Router.Update compiles the new View.
//
// Invariants, held by Check after every step of the tests:
//   - Apply refuses a command for reasons of state only. What a value may be (argument tables, exchange types, patterns) is judged by the Check functions
//     before the proposal, because that judgement may differ between releases and replicas must not.
//   - An id of a queue is a Raft shard id: counted from FirstQueueID, never reused.
//   - An exclusive queue is not durable; a queue that is not durable has a home, an incarnation of a node that is not declared dead; a durable one has
//     a set of replicas that never changes.
//   - Both ends of a binding exist, and a binding to a queue carries its id.
//   - A history has its exchange, is durable and stands in no binding (history.go).
//   - One entry does bounded work: at most SweepMax queues are removed; the rest follows by OpSweep, and Reply.More and View.SweepPending tell.
package meta
