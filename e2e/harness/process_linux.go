package harness

import (
	"os/exec"
	"runtime"
	"syscall"
)

// dieWithParent has the kernel kill the child when the thread that started it ends, and so at the latest with this process.
func dieWithParent(cmd *exec.Cmd) {
	cmd.SysProcAttr = &syscall.SysProcAttr{Pdeathsig: syscall.SIGKILL}
}

func spawner(work <-chan func()) {
	runtime.LockOSThread()
	for f := range work {
		f()
	}
}
