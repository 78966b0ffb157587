// Package harness runs real brokers for black-box tests: it finds or builds the binaries, starts them on free loopback ports with a data directory
// of their own, kills, stops and restarts them, and talks to them over AMQP (amqp091-go), HTTP and the metrics port.
//
// Invariants: every process ends with the test, also when the test is killed; processes are ended by their id; the ports of a broker stay the same
// over restarts; nothing listens beyond 127.0.0.1; the log of a broker is printed when its test fails.
//
// Functions that take a testing.TB fail the test; the others return errors, for programs (e2e/perf). Packages below: totalqueue (the checker), rawamqp
// (a client that can misbehave). The hop before is a test of e2e or e2e/perf; the hop behind is a broker process, or the broker that
// WARREN_E2E_AMQP_URL and WARREN_E2E_HTTP_URL name, to hold a test against another implementation.
package harness
