//go:build queuemutants

package queue

// mutant is the planted bug that is on.
var mutant = mutantNone
