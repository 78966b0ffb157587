//go:build !plantedbug_blind

package frame

// plantedBlind is false but in binaries that tests build to see that they are caught.
const plantedBlind = false
