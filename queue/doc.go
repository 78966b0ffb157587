// Package queue is one queue as a pure, deterministic state machine: commands go in, replies and effects come out. It decides which message is ready, who gets it, what comes
// back and what is gone; it never sees a body, a clock, a connection or a disk.
//
// The hop before is a runner (package quorum): it takes proposals off a replicated log, decodes them (DecodeEntry) and calls ApplyBatch or Apply. The hop behind is the same runner: it
// keeps the envelopes of KindStore, drops those of KindRelease, and shows KindDeliver to the session that it names. The same entries in the same order give the same state, replies and
// effects on every replica, so nothing here depends on time, chance, map order or floats.
//
// # Invariants
//
// Check holds them; tests run it after every step.
//
//   - A message that was stored and not released is in exactly one place: ready, delayed, outstanding in one session, returning, staged or reserved in one transaction, or in the outbox.
//   - Each level of priority hands out its messages in order of seq, returned ones included; the highest level goes first, unless the queue's messages age.
//   - A session's delivery numbers rise by one and are never reused; an outstanding delivery has been acquired at least once.
//   - No consumer has more unsettled deliveries than its prefetch, nor more undrained ones than its windows (but for one message in an empty byte window).
//   - A session gets nothing that needs an acknowledgement while its consumers, past ones included, have as many unsettled deliveries as its limit.
//   - While a message is ready, every consumer that it fits to has no credit, unless the entry's budget ran out (then NextDeadline is in the past) or the queue is sealed; and every session that nothing but its
//     limit keeps from it was told so since its last OpCredit.
//   - A transaction is reserved or decided once; one whose session may still end it has its pipeline, every other one is marked as an orphan. A queue with decisions is not sealed.
//   - One pipeline per node incarnation and gen; one incarnation per node; none that was declared dead.
//   - A session is looked through for overdue deliveries no later than the first of them is, or a second after the last look.
//   - What is packed is no state: snapshots, order and counts are the same whatever a replica has packed.
//   - One log entry does bounded work; the rest waits for OpTick.
//
// # Files
//
// command.go, reply.go, effect.go and config.go are the vocabulary; codec.go and entry.go its encoded form; limits.go names every limit. machine.go applies; pipeline.go keeps order,
// repeats and fences; session.go, consumer.go, active.go, assign.go and settle.go are the life of a delivery, timeout.go how a delivery ends that is never settled, credit.go the limit that a session has for it; ready.go (over fifo.go and packed.go, which keeps the middle of a long queue), heap.go, aging.go, outstanding.go and seqset.go are the data
// structures; work.go is bounded work and purge; seal.go deletion; sync.go the answer to an attach; peek.go looks at messages; rest.go tells when nothing is left to do; snapshot.go (window.go for what is packed), restore.go and check.go the state as a whole. mutant.go lists the planted
// bugs that the tests must find.
package queue
