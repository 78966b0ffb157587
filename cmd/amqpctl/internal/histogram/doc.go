// Package histogram counts durations in buckets whose width grows with the value: 128 buckets for each power of two.
//
// The workers of a benchmark add to one each, the report merges them and asks for quantiles. Invariants: a value read back is never smaller
// than the recorded one and at most 1/128 larger; adding allocates nothing; the size is fixed.
package histogram
