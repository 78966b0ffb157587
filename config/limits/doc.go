// Package limits names every bound of the broker: buffers, windows, counts, sizes and waits.
//
// It is the lowest leaf of the tree: it imports nothing, so pure machines and shells read the same numbers. A constant ends in its unit
// (Bytes, Millis, Seconds) or names what it counts (Batches, Commands); its comment says what it bounds, what happens beyond it and who
// enforces it. Where an operator may choose another value, a key of package config starts from the constant and says so.
//
// Invariant: a constant that a replicated machine reads never changes its value; a new value is a new machine version. Those constants are
// in machine.go. All others may change from one release to the next.
//
// Hop before: none. Hop after: every package. internal/tidy fails when a constant is used nowhere.
package limits
