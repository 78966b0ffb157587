//go:build plantedbug_early_confirm && !quorummutants

package quorum

const mutant = mutantConfirmEarly
