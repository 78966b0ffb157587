// Package consume takes messages from a queue, writes them, and settles them in the order that loses none.
//
// The consume command stands before it, behind it a connection of internal/lean. Invariants: a message that is to be acknowledged after it was
// written is acknowledged only after the output took it; with a count, never more messages are taken from the queue than that; a frame is
// read only when the ones before are written, so a slow output slows the broker down instead of filling memory.
package consume
