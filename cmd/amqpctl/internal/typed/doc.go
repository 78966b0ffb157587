// Package typed reads KEY=VALUE words of the command line into typed values for arguments of queues and headers of messages.
//
// Flags stand before it; behind it the values become JSON (HTTP API) or an AMQP field table. Invariants: a value that looks like nothing
// else is a string; json: says exactly what is meant; a key given twice is an error.
package typed
