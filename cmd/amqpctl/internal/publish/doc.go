// Package publish sends messages with publisher confirms and knows of each what became of it.
//
// The publish command stands before it, behind it a connection of internal/lean. Invariants: at most a window of messages waits for a confirm,
// so memory does not grow with the number of messages; after the first refused or returned message, and after any failure, nothing more is
// sent; Counts always adds up to what was sent, also when the connection broke.
package publish
