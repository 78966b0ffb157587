//go:build !linux && !darwin

package node

func filesMax() uint64 { return 0 }
