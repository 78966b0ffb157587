//go:build !quorummutants && !plantedbug_early_confirm

package quorum

const mutant = mutantNone

func (p *pipeline) plant(*batch, bool) {}
