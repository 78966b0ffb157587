// Package totalqueue is the checker of every test that kills, cuts or overloads a broker: it knows every message that was ever published, what the
// broker promised about it, and every delivery, and says at the end which promise was broken.
//
// Each message carries a unique value and a checksum (value.go). Publishers note what they attempt and what the broker answers; consumers note what
// they get and what they acknowledge. After the queues have been drained to the end the Verdict lists
//
//   - lost: confirmed, and in the end with no consumer that could acknowledge it;
//   - vanished: not confirmed, but delivered, and gone without an acknowledgement;
//   - invented: a value that nobody published, or not to that queue;
//   - corrupt: a body whose checksum or whose message id does not fit it;
//   - unflagged: a second delivery that was not marked redelivered;
//   - reordered: a first delivery behind a later message of its publisher, or a drained queue that contradicts the order of the publishes.
//
// What the broker never answered, or nacked, may be there or not: only a confirm is a promise.
//
// The hop before is a client that publishes or consumes (harness.Load, or a test's own); there is none behind. The package knows no AMQP and no clock.
package totalqueue
