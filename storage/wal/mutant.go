package wal

// Planted bugs that the tests must find; not persisted. In a normal build mutant is the constant mutantNone, so the compiler drops them; the build tag walmutants makes it a variable.
const (
	mutantNone = iota
	mutantSyncSkipped
	mutantMarkerForgotten
	mutantChainUnread
	mutantTornIsTaken
	mutantClaimsTooMuch
	mutantRotatesUnsynced
	mutantNamesUnsynced
	mutantOpensUnsynced
	mutantHeaderUnsynced
	mutantFreesEarly
	mutantTruncatesEarly
	mutantTruncatedShown
	mutantCopyCutsEntries
	mutantCopiesGone
	mutantFollowsAnything
	mutantOldSnapshotCounts
	mutantReadsUnverified
	mutantEndUnread
	mutantContinuesFile
	mutantTailOfOtherPlace
	mutantFatalUntold
)
