//go:build !walmutants

package wal

const mutant = mutantNone
