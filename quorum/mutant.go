package quorum

// Planted bugs that the tests must find; not persisted. In a normal build mutant is the constant mutantNone, so the compiler drops them; the build tag quorummutants makes it a variable, and the
// build tag plantedbug_early_confirm plants the one that end-to-end tests must find.
const (
	mutantNone = iota
	mutantConfirmEarly
	mutantConfirmUncommitted
	mutantNeighboursBody
	mutantDeathsForgotten
	mutantLateDeathForgotten
	mutantLeaseKept
	mutantCatalogueUnheard
	mutantLeasesForgotten
	mutantMinorityKicks
	mutantOldStreamTaken
	mutantHeldTwice
	mutantSeenIgnored
	mutantProposerForgets
	mutantNothingSentAgain
	mutantSealForEver
	mutantTimersForgotten
	mutantNobodyEvicted
	mutantBehindNotTold
	mutantDoneUnanswered
	mutantUnknownTargetGone
	mutantConfirmMajority
	mutantOpenTxsForgotten
	mutantNothingDrains
	mutantDrainingForEver
	mutantGoneRelayHas
	mutantRelayRestless
	mutantParksInUse
	mutantParkedForEver
	mutantMemberStaysParked
	mutantRotPassedOver
	mutantVotesForgotten
)
