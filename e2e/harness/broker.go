package harness

import (
	"errors"
	"fmt"
	"net/url"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"sync"
	"syscall"
	"testing"
	"time"

	amqp "github.com/rabbitmq/amqp091-go"
)

const (
	// startTimeout is how long a broker may take from exec until AMQP answers.
	startTimeout = 60 * time.Second
	// stopTimeout is how long a broker may take to stop after SIGTERM.
	stopTimeout = 30 * time.Second
	// patience is how long a test may take before its broker is killed: clients wait for ever for an answer that does not come.
	patience = 3 * time.Minute
	// logLinesMax bounds how much of a broker's log a failed test prints.
	logLinesMax = 120
)

// Options say how a broker is started. The zero value is the server binary with no settings.
type Options struct {
	// Binary is the server; ServerBinary if empty.
	Binary string
	// Dir is the data directory; a new one below the test's if empty.
	Dir string
	// Args are further arguments of `warren server`.
	Args []string
	// Env are further variables, "NAME=value".
	Env []string
	// Patience is how long the test may take before the broker is killed, so that clients that wait for an answer fail; 3 minutes if 0.
	Patience time.Duration
}

// Broker is one broker process, or an external broker whose process is nil.
type Broker struct {
	// AMQP, HTTP, Metrics and Cluster are the addresses, host:port.
	AMQP, HTTP, Metrics, Cluster string
	// DataDir is its data directory.
	DataDir string

	amqpURL, httpURL string // of an external broker, with user and password
	opts             Options
	logFile          string
	mu               sync.Mutex
	proc             *Process
	overdue          bool // it was killed for good
}

// Start starts a broker and waits until AMQP answers. It is killed at the end of the test, which prints its log when it failed.
func Start(t testing.TB, opts Options) *Broker {
	t.Helper()
	b := New(t, opts)
	b.Launch(t)
	return b
}

// New is Start of a broker that does not run yet.
func New(t testing.TB, opts Options) *Broker {
	t.Helper()
	NeedProcess(t)
	b, err := Prepare(t.TempDir(), opts)
	if err != nil {
		t.Fatal(err)
	}
	if opts.Patience == 0 {
		opts.Patience = patience
	}
	overdue := time.AfterFunc(opts.Patience, b.giveUp)
	t.Cleanup(func() {
		if !overdue.Stop() {
			t.Errorf("the broker was killed because the test took more than %v", opts.Patience)
		}
		b.cleanup(t)
	})
	return b
}

// giveUp ends the broker for good.
func (b *Broker) giveUp() {
	b.mu.Lock()
	b.overdue = true
	b.mu.Unlock()
	b.Close()
}

// StartOrExternal is Start, or the external broker where one is given.
func StartOrExternal(t testing.TB, opts Options) *Broker {
	t.Helper()
	Need(t)
	if !External() {
		return Start(t, opts)
	}
	b := &Broker{amqpURL: os.Getenv(envAMQPURL), httpURL: strings.TrimSuffix(os.Getenv(envHTTPURL), "/")}
	u, err := url.Parse(b.amqpURL)
	if err != nil {
		t.Fatalf("%s: %v", envAMQPURL, err)
	}
	b.AMQP = u.Host
	return b
}

// Prepare chooses the ports of a broker whose files go below dir. Nothing runs yet.
func Prepare(dir string, opts Options) (*Broker, error) {
	if opts.Binary == "" {
		path, err := ServerBinary()
		if err != nil {
			return nil, err
		}
		opts.Binary = path
	}
	b := &Broker{DataDir: opts.Dir, opts: opts, logFile: filepath.Join(dir, "broker.log")}
	if b.DataDir == "" {
		b.DataDir = filepath.Join(dir, "data")
	}
	for _, address := range []*string{&b.AMQP, &b.HTTP, &b.Metrics, &b.Cluster} {
		port, err := freePort()
		if err != nil {
			return nil, err
		}
		*address = fmt.Sprintf("127.0.0.1:%d", port)
	}
	return b, nil
}

// Command returns the broker's command line, not started.
func (b *Broker) Command() *exec.Cmd {
	args := append([]string{"server", "--data-dir", b.DataDir, "--amqp", b.AMQP, "--http", b.HTTP, "--metrics", b.Metrics, "--cluster", b.Cluster,
		"--name", "rabbit@e2e"}, b.opts.Args...)
	cmd := exec.Command(b.opts.Binary, args...)
	cmd.Env = append(cleanEnviron(), b.opts.Env...)
	return cmd
}

// SetEnv replaces Options.Env for the next start.
func (b *Broker) SetEnv(env ...string) { b.opts.Env = env }

// cleanEnviron is the environment without what the broker would take for its settings.
func cleanEnviron() []string {
	var env []string
	for _, pair := range os.Environ() {
		if !strings.HasPrefix(pair, "WARREN_") && !strings.HasPrefix(pair, "RABBITMQ_") {
			env = append(env, pair)
		}
	}
	return env
}

// Exec starts the process and returns at once.
func (b *Broker) Exec() error {
	b.mu.Lock()
	defer b.mu.Unlock()
	if b.overdue {
		return errors.New("the test takes too long")
	}
	p, err := StartProcess(b.logFile, b.Command())
	if err == nil {
		b.proc = p
	}
	return err
}

// Process is the latest process; nil for an external broker.
func (b *Broker) Process() *Process {
	b.mu.Lock()
	defer b.mu.Unlock()
	return b.proc
}

// AwaitAMQP waits until a client can open a channel. It fails when the process ends or the time is up.
func (b *Broker) AwaitAMQP(timeout time.Duration) error {
	deadline := time.Now().Add(timeout)
	p := b.Process()
	for {
		conn, err := Dial(b.AMQPURL())
		if err == nil {
			_, err = conn.Channel()
			conn.Close()
		}
		if err == nil {
			return nil
		}
		select {
		case <-p.Done():
			return fmt.Errorf("the broker ended with exit code %d before AMQP answered", p.cmd.ProcessState.ExitCode())
		default:
		}
		if time.Now().After(deadline) {
			return fmt.Errorf("AMQP does not answer after %v: %w", timeout, err)
		}
		time.Sleep(5 * time.Millisecond)
	}
}

// Launch starts the process and waits until AMQP answers. It returns the time from exec to the first answer.
func (b *Broker) Launch(t testing.TB) time.Duration {
	t.Helper()
	began := time.Now()
	if err := b.Exec(); err != nil {
		t.Fatal(err)
	}
	if err := b.AwaitAMQP(startTimeout); err != nil {
		t.Fatal(err)
	}
	return time.Since(began)
}

// Kill9 ends the broker as a crash does and waits for its end.
func (b *Broker) Kill9() { b.Process().Kill() }

// Terminate asks the broker to stop and wants exit code 0.
func (b *Broker) Terminate(t testing.TB) {
	t.Helper()
	if err := b.Stop(); err != nil {
		t.Fatal(err)
	}
}

// Stop sends SIGTERM and waits for exit code 0.
func (b *Broker) Stop() error {
	p := b.Process()
	if err := p.Signal(syscall.SIGTERM); err != nil {
		return fmt.Errorf("SIGTERM: %w", err)
	}
	code, err := p.Wait(stopTimeout)
	if err == nil && code != 0 {
		err = fmt.Errorf("exit code %d after SIGTERM", code)
	}
	return err
}

// Restart stops a running broker cleanly and starts it again on the same files and ports.
func (b *Broker) Restart(t testing.TB) time.Duration {
	t.Helper()
	if b.Process().Running() {
		b.Terminate(t)
	}
	return b.Launch(t)
}

// Running tells whether the process is alive. An external broker counts as running.
func (b *Broker) Running() bool {
	p := b.Process()
	return p == nil || p.Running()
}

// External tells whether the broker belongs to somebody else.
func (b *Broker) External() bool { return b.amqpURL != "" }

// Pid is the process's id; 0 for an external broker.
func (b *Broker) Pid() int {
	if p := b.Process(); p != nil {
		return p.Pid()
	}
	return 0
}

// AMQPURL is the broker's URL for guest and the virtual host "/".
func (b *Broker) AMQPURL() string {
	if b.amqpURL != "" {
		return b.amqpURL
	}
	return "amqp://guest:guest@" + b.AMQP + "/"
}

// HTTPURL is the URL of the management API with the password, without a slash at its end.
func (b *Broker) HTTPURL() string {
	if b.External() {
		return b.httpURL
	}
	return "http://guest:guest@" + b.HTTP
}

// Log returns what the broker has printed, all of its lives.
func (b *Broker) Log() string {
	data, err := os.ReadFile(b.logFile)
	if err != nil && !errors.Is(err, os.ErrNotExist) {
		return err.Error()
	}
	return string(data)
}

// Close kills the broker if it runs.
func (b *Broker) Close() {
	if p := b.Process(); p != nil {
		p.Kill()
	}
}

func (b *Broker) cleanup(t testing.TB) {
	b.Close()
	if !t.Failed() {
		return
	}
	t.Logf("log of the broker on %s:\n%s", b.AMQP, b.LogTail())
}

// LogTail returns the end of what the broker has printed, for the message of a failure, without the lines that are many and all alike.
func (b *Broker) LogTail() string {
	var lines []string
	for line := range strings.Lines(b.Log()) {
		if !strings.Contains(line, `msg="connection opened"`) {
			lines = append(lines, line)
		}
	}
	if cut := len(lines) - logLinesMax; cut > 0 {
		lines = append([]string{fmt.Sprintf("... %d lines before\n", cut)}, lines[cut:]...)
	}
	return strings.Join(lines, "")
}

// Dial opens a connection with short time-outs.
func Dial(url string) (*amqp.Connection, error) {
	return amqp.DialConfig(url, amqp.Config{Dial: amqp.DefaultDial(10 * time.Second), Heartbeat: 10 * time.Second})
}
