// Package link is the conversation between the nodes of a cluster: calls with one answer, one-way messages, and streams that go on until either side ends them.
//
// It stands between quorum, which gives kinds and payloads their meaning, and quorum/transport, which brings authenticated connections. Each node keeps one connection to every other
// node for what it asks, so that two nodes share two; answers and streams come back on the connection of the question.
//
// Invariants: messages of one connection arrive in order or not at all; a call is answered, or fails when its connection ends or its context does; the end of a connection ends its
// streams on both sides; nothing here waits for a slow peer (a full connection is ErrBusy).
package link
