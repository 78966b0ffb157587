// Package bench measures a broker: how many messages per second it takes, confirms and delivers, and how long that takes each.
//
// The bench command fills a Config and prints the Report; behind stands a broker, over internal/lean. Every producer and every consumer has a
// connection of its own. A producer keeps a buffer of ready frames and only writes numbers and times into it; a consumer reads tag and
// stamp out of the frames where they lie. Neither allocates for a message, so that the generator is not what is measured; the report says how
// much CPU it took.
//
// Invariants: each message carries (run, producer, number), and at the end every number is accounted for: confirmed or not, consumed once, more
// than once, or never. Latencies count from the moment a message was due: with a rate that is the time it should have been sent, so a broker
// that stalls cannot hide it. Only the measured time, after the warm-up, counts for rates and latencies; all of the run counts for the check.
package bench
