// Package fakebroker is an AMQP broker for tests, small enough to misbehave on purpose: it can refuse, lose or double a message, keep silent, or
// hang up at an exact point.
//
// Tests of lean, publish, consume, bench and the commands start one; nothing else uses it. It speaks as much of AMQP 0-9-1 as amqpctl does:
// one channel per connection, queues in memory, confirms, consumers with prefetch. Invariant: apart from what a Fault orders, every message is
// delivered once and in order.
package fakebroker
