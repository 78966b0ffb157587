package clients

import (
	"bufio"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/warrenmq/warren/e2e/harness"
)

func TestMain(m *testing.M) { harness.Main(m) }

// programTimeout is how long a program that ends by itself may take, and how long one may be silent when a line is due.
const programTimeout = 60 * time.Second

// language runs the tutorials that were written in it.
type language struct {
	name    string
	command func(t *testing.T, program string, args ...string) *exec.Cmd
}

var languages = []language{
	{"go", func(t *testing.T, program string, args ...string) *exec.Cmd {
		return exec.Command(tutorials(t), append([]string{program}, args...)...)
	}},
	{"python", func(t *testing.T, program string, args ...string) *exec.Cmd {
		return exec.Command(harness.Python(t), append([]string{filepath.Join("python", program+".py")}, args...)...)
	}},
}

// tutorials builds the Go programs.
func tutorials(t *testing.T) string {
	t.Helper()
	path, err := harness.BuildPackage("e2e/clients/tutorials")
	if err != nil {
		t.Fatal(err)
	}
	return path
}

// pairs runs a test with the senders of one language and the receivers of the other, and if asked also within each language.
func pairs(t *testing.T, b *harness.Broker, all bool, test func(t *testing.T, s *stage)) {
	for i, from := range languages {
		for j, to := range languages {
			if all || i != j {
				t.Run(from.name+" to "+to.name, func(t *testing.T) { test(t, &stage{t: t, broker: b, from: from, to: to}) })
			}
		}
	}
}

// stage is one test of a tutorial: a broker and the languages of both sides.
type stage struct {
	t        *testing.T
	broker   *harness.Broker
	from, to language
}

// send runs a sender to its end and returns what it printed.
func (s *stage) send(program string, args ...string) []string {
	s.t.Helper()
	return runProgram(s.t, s.broker, s.from.command(s.t, program, args...))
}

// runProgram runs a program to its end, wants exit code 0, and returns the lines that it printed.
func runProgram(t *testing.T, b *harness.Broker, cmd *exec.Cmd) []string {
	t.Helper()
	cmd.Env = append(os.Environ(), "AMQP_URL="+b.AMQPURL())
	r, err := harness.Run(programTimeout, cmd)
	if err != nil || r.Code != 0 {
		t.Fatalf("%s: %v, %v", strings.Join(cmd.Args, " "), err, r)
	}
	return strings.Split(strings.TrimSuffix(r.Stdout, "\n"), "\n")
}

// receiver is a running program whose lines the test reads.
type receiver struct {
	t     *testing.T
	name  string
	proc  *harness.Process
	lines chan string
}

// receive starts a receiver and waits until it is ready.
func (s *stage) receive(program string, args ...string) *receiver {
	s.t.Helper()
	r := s.start(program, args...)
	r.want("ready")
	return r
}

// start starts a receiver.
func (s *stage) start(program string, args ...string) *receiver {
	s.t.Helper()
	cmd := s.to.command(s.t, program, args...)
	cmd.Env = append(os.Environ(), "AMQP_URL="+s.broker.AMQPURL())
	reading, writing, err := os.Pipe()
	if err != nil {
		s.t.Fatal(err)
	}
	cmd.Stdout = writing
	logFile := filepath.Join(s.t.TempDir(), program+".log")
	proc, err := harness.StartProcess(logFile, cmd)
	writing.Close()
	if err != nil {
		s.t.Fatal(err)
	}
	r := &receiver{t: s.t, name: s.to.name + " " + program, proc: proc, lines: make(chan string, 1000)}
	go func() {
		defer reading.Close()
		defer close(r.lines)
		for scanner := bufio.NewScanner(reading); scanner.Scan(); {
			r.lines <- scanner.Text()
		}
	}()
	s.t.Cleanup(func() {
		proc.Kill()
		if said, _ := os.ReadFile(logFile); s.t.Failed() && len(said) > 0 {
			s.t.Logf("%s said:\n%s", r.name, said)
		}
	})
	return r
}

// ready waits until receivers are ready.
func ready(receivers ...*receiver) {
	for _, r := range receivers {
		r.t.Helper()
		r.want("ready")
	}
}

// next returns the next line.
func (r *receiver) next() string {
	r.t.Helper()
	select {
	case line, ok := <-r.lines:
		if !ok {
			r.t.Fatalf("%s ended", r.name)
		}
		return line
	case <-time.After(programTimeout):
		r.t.Fatalf("%s printed nothing for %v", r.name, programTimeout)
	}
	panic("unreachable")
}

// want wants these lines next.
func (r *receiver) want(lines ...string) {
	r.t.Helper()
	for _, want := range lines {
		if got := r.next(); got != want {
			r.t.Fatalf("%s printed %q, want %q", r.name, got, want)
		}
	}
}

// rest kills the receiver and returns what it had printed and nobody had read.
func (r *receiver) rest() []string {
	r.proc.Kill()
	var left []string
	for line := range r.lines {
		left = append(left, line)
	}
	return left
}

// wantNothingMore kills the receiver; it must not have printed more. Call it after something that came later on another way.
func (r *receiver) wantNothingMore() {
	r.t.Helper()
	if left := r.rest(); len(left) > 0 {
		r.t.Errorf("%s printed more: %q", r.name, left)
	}
}

func numbered(format string, n int) []string {
	lines := make([]string, n)
	for i := range lines {
		lines[i] = fmt.Sprintf(format, i)
	}
	return lines
}
