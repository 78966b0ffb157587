package queue

import "github.com/warrenmq/warren/config/limits"

// Bounds of a consumer's windows. They are part of the machine's behaviour like those of config/limits, so their values never change.
const (
	// WindowCountMax caps Command.WindowCount, so that one OpDrained has bounded work per consumer.
	WindowCountMax = 4096
	// WindowCountDefault stands for a WindowCount of 0.
	WindowCountDefault = 256
	// WindowBytesDefault stands for a WindowBytes of 0.
	WindowBytesDefault = 256 << 10
)

// resolveMax bounds the parcels and targets of one OpResolve, runMessagesMax the messages of one OpRun. They are part of the machine's behaviour, too.
const (
	resolveMax     = limits.ApplyWorkMax
	runMessagesMax = limits.BatchCommandsMax
)

// txQueuesMax bounds the queues of one transaction beside its home.
const txQueuesMax = limits.TxQueuesMax

// gathersMax bounds the messages of ended sessions that one entry puts in order; it costs a fraction of what it costs to return them.
const gathersMax = 4 * limits.ApplyWorkMax

// pipelineWindow is how many outcomes are kept per pipeline.
const pipelineWindow = limits.PipelineWindowBatches

// bounds are the limits that tests make small to reach them. They are constants of the machine, never state.
type bounds struct {
	// How many records there may be of a kind.
	pipelines, sessions, consumers, lanes, marks, reservations, decisions int
	// How many ids a window of deduplication holds, and how many the machine may keep beyond twice as many as messages.
	ids, garbage uint64
	// How many messages wait in the outbox when what dies is lost.
	letters uint64
	// How many commands a transaction may have here; all of them take effect in one entry.
	txCommands int
	// How much one log entry may do: messages returned, messages put in order to be returned, KindRelease effects of purges and ended sessions, messages assigned to consumers, ready
	// messages that die, ids that are looked at.
	returns, gathers, releases, assignments, deaths, sweeps int
	// How many seqs one window of ready messages covers, which are packed together. Unlike the others it stands behind every snapshot.
	window Seq
}

// standardBounds are the limits of every machine outside tests.
var standardBounds = bounds{
	pipelines: limits.PipelinesPerQueueMax, sessions: limits.SessionsPerQueueMax, consumers: limits.ConsumersPerQueueMax, lanes: limits.LanesPerQueueMax, marks: limits.MarksPerQueueMax,
	reservations: limits.TxOpenPerQueueMax, decisions: limits.TxOpenPerQueueMax,
	letters: limits.OutboxLettersMax, ids: limits.DedupIDsMax, garbage: limits.DedupGarbage,
	txCommands: limits.TxCommandsMax,
	returns:    limits.ApplyWorkMax, gathers: gathersMax, releases: limits.ApplyWorkMax, assignments: limits.ApplyWorkMax, deaths: limits.ApplyWorkMax, sweeps: limits.DedupSweepMax,
	window: windowSeqs,
}
