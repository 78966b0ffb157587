//go:build !queuemutants

package queue

const mutant = mutantNone
