//go:build !linux && !darwin

package management

func diskFree(string) uint64 { return 0 }

func openFilesMax() uint64 { return fallbackTotal }

func contextSwitches() uint64 { return 0 }
