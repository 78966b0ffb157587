// Package quorum runs machines. A durable queue is a Raft group (group), a transient one a local runner (local), the catalogue a Raft group of its own (catalogue).
// It is the only importer of dragonboat.
//
// The hop before is broker: a channel opens a Session, submits commands and gets completions and deliveries through its Receiver. The hops behind are dragonboat, which
// replicates, and storage, where checkpoints and message bodies go.
//
// A command takes this way: Session.Submit puts it into the queue's pipeline (pipeline.go), which sends numbered batches to the leader's gate (group.propose); Raft brings the batch to
// every replica's machine (replica.go); the replica that serves the node streams the outcome and what the machine assigned back (attach.go), and the pipeline completes the
// waiters and hands deliveries to their sessions.
//
// Invariants, each with its failure in PROTOCOL:
//
//   - a command takes effect exactly once and in the order of its pipeline, whatever is repeated on the way (TestPipelineSurvives...);
//   - a completion is given only after the batch was applied here, hence committed and synced by a majority;
//   - events of one queue reach a session in log order;
//   - nothing in a machine's input comes from this node's clock, configuration or memory but through a command.
package quorum
