//go:build !plantedbug_no_sync

package storage

// plantedNoSync is false but in binaries that tests build to see that they are caught.
const plantedNoSync = false
