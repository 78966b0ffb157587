// Package message is a message as it stands in a queue: where it was published to, its properties, its body, and the deaths that it died in other queues. It is pure.
//
// The machine of a queue never looks into it; the shells around do: the hop before is the broker, which makes the message of what a client published, or a queue's mover, which makes a
// dead letter of a message that died; the hop behind is the broker again, which delivers it.
//
// Invariants: the parts that a client sent are kept byte for byte; deaths are known to the brokers alone, so that what a client sends as x-death is content and decides nothing.
package message
