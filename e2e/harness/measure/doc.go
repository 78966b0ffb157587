// Package measure takes the figures that the tests of e2e/speed bound and that the program e2e/perf prints: how long a declare takes, and what many
// durable queues cost in memory and at a start.
//
// The hop before is one of those two; behind is a broker of e2e/harness or any other AMQP broker.
package measure
