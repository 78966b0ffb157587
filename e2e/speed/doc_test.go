// Package speed bounds figures that users feel and that must not slip, generously enough for a loaded machine: the time of a declare, the memory and
// the start of many durable queues. e2e/perf prints the same figures, and compares with other brokers.
//
// The hop before is none; behind is e2e/harness/measure.
package speed
