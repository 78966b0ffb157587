//go:build plantedbug_blind

package frame

// plantedBlind has damaged records pass as good ones.
const plantedBlind = true
