// Package conformance holds single behaviours of AMQP against a running broker, above all those that a test with random faults once found broken:
// each finding becomes the smallest test here. What clients rely on is listed in testdata/behaviours.txt and held by transcripts, most of them recorded
// from RabbitMQ: transcript_test.go has their form, player_test.go plays them, wire_test.go knows the wire.
//
// The tests hold for RabbitMQ as well, unless they say otherwise. The hop before is none; behind is the broker that e2e/harness runs.
package conformance
