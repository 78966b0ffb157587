package harness

import (
	"errors"
	"fmt"
	"os"
	"os/exec"
	"strings"
	"sync"
	"syscall"
	"time"
)

// Process is one running program. Its standard error, and standard output unless taken, go to a log file.
type Process struct {
	cmd  *exec.Cmd
	log  *os.File
	done chan struct{}
	err  error
}

// spawn starts commands from one thread that never ends: on Linux the death signal that a child asks for comes when the thread that started it ends.
var spawn = sync.OnceValue(func() chan<- func() {
	work := make(chan func())
	go spawner(work)
	return work
})

// StartProcess starts a program and appends what it prints to the log file. The program dies with the calling process.
func StartProcess(logFile string, cmd *exec.Cmd) (*Process, error) {
	log, err := os.OpenFile(logFile, os.O_CREATE|os.O_APPEND|os.O_WRONLY, 0o600)
	if err != nil {
		return nil, err
	}
	if cmd.Stdout == nil {
		cmd.Stdout = log
	}
	cmd.Stderr = log
	dieWithParent(cmd)
	if err := start(cmd); err != nil {
		log.Close()
		return nil, err
	}
	p := &Process{cmd: cmd, log: log, done: make(chan struct{})}
	go func() {
		p.err = cmd.Wait()
		log.Close()
		close(p.done)
	}()
	return p, nil
}

func start(cmd *exec.Cmd) error {
	result := make(chan error, 1)
	spawn() <- func() { result <- cmd.Start() }
	return <-result
}

// Pid is the process's id.
func (p *Process) Pid() int { return p.cmd.Process.Pid }

// Done is closed when the process has ended.
func (p *Process) Done() <-chan struct{} { return p.done }

// Running tells whether the process has not ended.
func (p *Process) Running() bool {
	select {
	case <-p.done:
		return false
	default:
		return true
	}
}

// Signal sends a signal.
func (p *Process) Signal(s os.Signal) error { return p.cmd.Process.Signal(s) }

// Kill ends the process with SIGKILL and waits for its end.
func (p *Process) Kill() {
	if p.Running() {
		_ = p.cmd.Process.Kill()
	}
	<-p.done
}

// Wait waits for the end and returns the exit code, or an error after the timeout.
func (p *Process) Wait(timeout time.Duration) (int, error) {
	select {
	case <-p.done:
		return p.cmd.ProcessState.ExitCode(), nil
	case <-time.After(timeout):
		return 0, fmt.Errorf("process %d still runs after %v", p.Pid(), timeout)
	}
}

// Result is what a program that ran to its end left.
type Result struct {
	// Code is the exit code; -1 when a signal ended the program.
	Code int
	// Stdout and Stderr are what it printed.
	Stdout, Stderr string
	// Took is how long it ran.
	Took time.Duration
}

// String shows a result in a failure.
func (r Result) String() string {
	return fmt.Sprintf("exit code %d after %v\nstdout: %s\nstderr: %s", r.Code, r.Took.Round(time.Millisecond), r.Stdout, r.Stderr)
}

// Run runs a program to its end, or kills it after the timeout, which is an error.
func Run(timeout time.Duration, cmd *exec.Cmd) (Result, error) {
	var stdout, stderr strings.Builder
	if cmd.Stdout == nil {
		cmd.Stdout = &stdout
	}
	cmd.Stderr = &stderr
	dieWithParent(cmd)
	began := time.Now()
	if err := start(cmd); err != nil {
		return Result{}, err
	}
	ended := make(chan error, 1)
	go func() { ended <- cmd.Wait() }()
	late := time.NewTimer(timeout)
	defer late.Stop()
	var err error
	select {
	case err = <-ended:
	case <-late.C:
		_ = cmd.Process.Signal(syscall.SIGKILL)
		<-ended
		err = fmt.Errorf("%s still ran after %v", cmd.Path, timeout)
	}
	r := Result{Code: cmd.ProcessState.ExitCode(), Stdout: stdout.String(), Stderr: stderr.String(), Took: time.Since(began)}
	var exit *exec.ExitError
	if errors.As(err, &exit) {
		err = nil
	}
	return r, err
}
