package queue

// Planted bugs that the tests must find; not persisted. In a normal build mutant is the constant mutantNone, so the compiler drops them; the build tag queuemutants makes it a variable.
const (
	mutantNone = iota
	mutantReturnsToTail
	mutantRedeliveredLost
	mutantAckTwice
	mutantPrefetchOffByOne
	mutantRepeatApplied
	mutantSnapshotOmitsUnacked
	mutantPurgeTakesReturning
	mutantDrainKeepsWindow
	mutantNodeGoneCounts
	mutantRoundRobinStuck
	mutantReturnForgetsWindow
	mutantFenceForgotten
	mutantExpiresLate
	mutantFullByOne
	mutantDeliveryLimitEarly
	mutantTimerKept
	mutantSnapshotOmitsOutbox
	mutantTxVisibleEarly
	mutantTxSettlesEarly
	mutantTxPartCommitted
	mutantTxSurvivesClose
	mutantLimitForgetsCancelled
	mutantMarkStays
	mutantSyncForgetsReady
	mutantImmediateWaits
	mutantNewcomerTakesOver
	mutantTakesOverAtOnce
	mutantMovedStays
	mutantTakenShown
	mutantTakenTimerKept
	mutantMovePassesLimit
	mutantReservationReturns
	mutantAskedStaysOpen
	mutantSnapshotOmitsDecisions
	mutantSealedUndecided
	mutantFinishObeysLimits
	mutantDecisionForgotten
	mutantTimeoutTakesStaged
	mutantTimeoutSplitsOrder
	mutantTimeoutSettledTwice
	mutantTimeoutCounts
	mutantScheduleOffByOne
	mutantJitterForgotten
	mutantReturnsHalfGathered
	mutantIDFreedEarly
	mutantIDKnownThoughRefused
	mutantWindowRefreshed
	mutantSnapshotOmitsIDs
	mutantsEnd
)
