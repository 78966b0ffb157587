//go:build !linux

package storage

import "os"

// syncData makes the bytes and the size of f durable. On darwin os.File.Sync asks the drive to empty its cache, too.
func syncData(f *os.File) error { return f.Sync() }
