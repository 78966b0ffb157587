//go:build plantedbug_no_sync

package storage

// plantedNoSync has syncs do nothing: what a machine confirms that loses power is lost.
const plantedNoSync = true
