// Package broker is AMQP 0-9-1 behaviour: between the sockets of clients and the queues and the catalogue of package quorum.
//
// Hop before: a client's socket; package amqp takes frames apart. Hop after: a publish is routed by exchange.Router and submitted to the pipelines of
// its queues through a Session; what queues complete and deliver comes back through the Receiver methods of a channel and leaves in one write per
// connection for all that is ready.
//
// The parts: listener and registry (Broker), handshake, connection (reader, outbox, watch), channel (publish, confirm, consume, deliver, ack, get,
// share and credit, declare, bind, close), permission, errors (the one table of codes and texts), envelope (how a message stands in a queue), client (the same for the
// management API, without a socket), stats.
//
// Who runs what. One goroutine per connection reads. It handles every whole frame of one read and then flushes the sessions that it touched, so batches
// form by themselves. A channel's frames are handled by one goroutine at a time, its executor: the reader, or while an operation of the channel waits
// for the catalogue or a queue, nobody, and afterwards a goroutine that catches up with what was set aside meanwhile. Goroutines that apply queues call
// Completed, Deliver, Cancelled and Gone: they note, append frames and wake the writer, which lives as long as there is something to write. One
// goroutine per Broker, the watch, looks after everything that depends on time alone.
//
// Invariants:
//   - Every publish ends in an ack or a nack on a channel in confirm mode; an ack is sent when all its queues answered; basic.return comes before it.
//   - The parts that queues have of a prefetch for the whole channel are together never more than it, whatever is under way.
//   - Delivery tags rise on the wire; what was written to the socket is told to queues as drained, never more.
//   - Locks are taken in the order Broker, conn, channel, outbox, and none is held while a Session or the catalogue is called.
//   - Memory of a connection grows with bytes received and with the windows of its consumers, never with announced sizes; beyond the limits its
//     socket is not read.
//   - A panic in the code of one connection closes that connection with 541 and nothing else.
package broker
