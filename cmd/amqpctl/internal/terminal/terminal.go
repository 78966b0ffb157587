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

// Size returns the columns and lines of the terminal f, zeros when it is none or does not say.
func Size(f any) (width, height int) {
	file, ok := f.(*os.File)
	if !ok {
		return 0, 0
	}
	size, err := unix.IoctlGetWinsize(int(file.Fd()), unix.TIOCGWINSZ)
	if err != nil {
		return 0, 0
	}
	return int(size.Col), int(size.Row)
}

// Hide stops the terminal f from showing what is typed, until show is called. Half a password must not become a command of the shell: what was typed and not
// read by then is dropped.
func Hide(f *os.File) (show func(), err error) {
	fd := int(f.Fd())
	before, err := unix.IoctlGetTermios(fd, getTermios)
	if err != nil {
		return nil, err
	}
	hidden := *before
	hidden.Lflag &^= unix.ECHO
	hidden.Lflag |= unix.ICANON | unix.ISIG
	if err := unix.IoctlSetTermios(fd, setTermios, &hidden); err != nil {
		return nil, err
	}
	return func() { _ = unix.IoctlSetTermios(fd, setTermios, before) }, nil
}

// Colour tells whether f may be sent terminal colours: it is a terminal that understands them and NO_COLOR is not set to anything.
func Colour(f any) bool {
	return os.Getenv("NO_COLOR") == "" && os.Getenv("TERM") != "dumb" && Is(f)
}
