// Command perf prints the figures that docs/performance.md quotes.
//
//	perf declare [-n 200] [-type quorum] [-url URL]   time of a declare on one connection; -url measures a broker that runs already
//	perf thousand [-n 1000] [-stop]                   memory and start of many durable queues with one message each
//	perf long [-n 10000000] [-size 100]               memory, speed and restart of one queue with many small messages
//	perf neighbour [-fill 1073741824] [-rounds 3]     what a queue feels of another's checkpoints and reads, as the time until a publish is confirmed
//	perf replicated [-rounds 1] [-size 1024]          three nodes of Warren and of NATS JetStream under the same load
//
// compare.sh beside it runs `amqpctl bench` against Warren and another broker in turn. The server is WARREN_BIN, or it is built.
//
// It is a module of its own so that the brokers and clients that it compares with never become dependencies of the broker. The hop before is a person
// or a CI job; behind is e2e/harness/measure.
package main
