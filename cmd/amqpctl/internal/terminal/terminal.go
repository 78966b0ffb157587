package terminal

import (
	"os"

	"golang.org/x/sys/unix"
)

// Is tells whether f is a terminal. Other character devices, as /dev/null, are not.
func Is(f any) bool {
	file, ok := f.(*os.File)
	if !ok {
		return false
	}
	_, err := unix.IoctlGetTermios(int(file.Fd()), getTermios)
	return err == nil
}

// WidthRunes returns the number of columns of the terminal f, or 0 when it has none or does not say.
func WidthRunes(f any) int {
	file, ok := f.(*os.File)
	if !ok {
		return 0
	}
	size, err := unix.IoctlGetWinsize(int(file.Fd()), unix.TIOCGWINSZ)
	if err != nil {
		return 0
	}
	return int(size.Col)
}

// Colour tells whether f may be sent terminal colours: it is a terminal that understands them and NO_COLOR is not set to anything.
func Colour(f any) bool {
	return os.Getenv("NO_COLOR") == "" && os.Getenv("TERM") != "dumb" && Is(f)
}
