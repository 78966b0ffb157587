//go:build quorummutants

package quorum

// mutant is the planted bug that is on.
var mutant = mutantNone
