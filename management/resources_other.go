//go:build !linux && !darwin

package management

func openFilesMax() uint64 { return fallbackTotal }

func contextSwitches() uint64 { return 0 }
