package terminal

import "golang.org/x/sys/unix"

// setTermios drops what was typed and not read.
const (
	getTermios = unix.TIOCGETA
	setTermios = unix.TIOCSETAF
)
