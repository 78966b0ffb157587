// Package lean is a client connection that leaves the hot path to its user: it does the handshake and single calls, and otherwise hands out
// frames as they arrive and takes bytes as they are.
//
// bench stands before it, a broker behind it. A general client library decodes and allocates for each message and so becomes the thing that a
// benchmark measures; here the user writes frames that were encoded once and reads what it needs out of a frame.
// Invariants: one channel, number Channel; after Dial nothing is read or written except by the user's calls; heartbeats are negotiated away,
// so the user must bound its waits.
package lean
