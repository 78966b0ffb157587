// Package storagetest is a file system in memory for tests that take the disk away.
//
// It is stricter than any disk: Crash forgets every byte that was not synced and every name whose directory was not synced. CrashTorn and
// CrashLeaving let chosen parts of what was not synced survive, down to single bytes and out of order. SetFault fails any operation, or tears a
// write. Flip changes a bit. Handles from before a crash are dead.
//
// Hop before: tests of storage and of the packages above. It belongs in no binary.
package storagetest
