package main

import (
	"bytes"
	"context"
	"fmt"
	"net/http"
	"os"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"golang.org/x/sys/unix"

	"github.com/warrenmq/warren/cmd/amqpctl/internal/exit"
	"github.com/warrenmq/warren/cmd/amqpctl/internal/fakebroker"
)

// screen is a pseudo-terminal: what a program writes to tty is read here, what is typed here it reads there.
type screen struct {
	t    *testing.T
	ptm  *os.File
	tty  *os.File
	mu   sync.Mutex
	seen bytes.Buffer
	more chan struct{} // something came
}

func newScreen(t *testing.T, columns, lines uint16) *screen {
	t.Helper()
	ptm, err := os.OpenFile("/dev/ptmx", os.O_RDWR|unix.O_NOCTTY, 0)
	if err != nil {
		t.Skipf("no pseudo-terminals: %v", err)
	}
	fd := int(ptm.Fd())
	number, err := unix.IoctlGetInt(fd, unix.TIOCGPTN)
	if err == nil {
		err = unix.IoctlSetPointerInt(fd, unix.TIOCSPTLCK, 0)
	}
	if err == nil {
		err = unix.IoctlSetWinsize(fd, unix.TIOCSWINSZ, &unix.Winsize{Row: lines, Col: columns})
	}
	if err != nil {
		t.Skipf("no pseudo-terminals: %v", err)
	}
	tty, err := os.OpenFile(fmt.Sprintf("/dev/pts/%d", number), os.O_RDWR|unix.O_NOCTTY, 0)
	if err != nil {
		t.Skipf("no pseudo-terminals: %v", err)
	}
	s := &screen{t: t, ptm: ptm, tty: tty, more: make(chan struct{}, 1)}
	t.Cleanup(func() { tty.Close(); ptm.Close() })
	go func() {
		buf := make([]byte, 4096)
		for {
			n, err := ptm.Read(buf)
			if err != nil {
				return
			}
			s.mu.Lock()
			s.seen.Write(buf[:n])
			s.mu.Unlock()
			select {
			case s.more <- struct{}{}:
			default:
			}
		}
	}()
	return s
}

func (s *screen) text() string {
	s.mu.Lock()
	defer s.mu.Unlock()
	return s.seen.String()
}

// await waits until something stands on the screen.
func (s *screen) await(text string) {
	s.t.Helper()
	deadline := time.After(10 * time.Second)
	for !strings.Contains(s.text(), text) {
		select {
		case <-s.more:
		case <-deadline:
			s.t.Fatalf("%q does not come; the screen shows %q", text, s.text())
		}
	}
}

func (s *screen) typed(text string) {
	s.t.Helper()
	if _, err := s.ptm.WriteString(text); err != nil {
		s.t.Fatal(err)
	}
}

// echoes tells whether the terminal shows what is typed.
func (s *screen) echoes() bool {
	settings, err := unix.IoctlGetTermios(int(s.tty.Fd()), unix.TCGETS)
	if err != nil {
		s.t.Fatal(err)
	}
	return settings.Lflag&unix.ECHO != 0
}

// On a terminal --watch paints the screen anew, no more lines than there are, and keeps the last picture when the broker is away.
func TestWatchPaintsATerminal(t *testing.T) {
	w := newWorld(t, fakebroker.Config{})
	t.Setenv("NO_COLOR", "1")
	var asked atomic.Int64
	w.hook = func(rw http.ResponseWriter, _ *http.Request) bool {
		n := asked.Add(1)
		if n == 2 {
			rw.WriteHeader(http.StatusServiceUnavailable)
			return true
		}
		items := make([]string, 20)
		for i := range items {
			items[i] = fmt.Sprintf(`{"name":"queue-%d-%d"}`, n, i)
		}
		fmt.Fprintf(rw, `[%s]`, strings.Join(items, ","))
		return true
	}
	s := newScreen(t, 80, 9)
	ctx, cancel := context.WithCancel(t.Context())
	defer cancel()
	done := make(chan exit.Code, 1)
	go func() {
		done <- run(ctx, []string{"queue", "ls", "--columns", "name", "--watch=100ms"}, streams{in: strings.NewReader(""), out: s.tty, err: s.tty})
	}()
	s.await("queue-3-0")
	cancel()
	if code := <-done; code != exit.Interrupted {
		t.Errorf("code %d", code)
	}
	pictures := strings.Split(s.text(), "\x1b[H")
	if len(pictures) < 4 || pictures[0] != "\x1b[2J" {
		t.Fatalf("pictures %q", pictures)
	}
	first := strings.ReplaceAll(strings.ReplaceAll(pictures[1], "\x1b[K", ""), "\r\n", "\n")
	title, rest, _ := strings.Cut(first, "\n")
	if !strings.HasPrefix(title, `Every 100ms: queues of vhost "/"  `) || rest != "\nname\nqueue-1-0\nqueue-1-1\nqueue-1-2\nqueue-1-3\n... and 16 more\n\x1b[J" {
		t.Errorf("picture %q", first)
	}
	if second := pictures[2]; !strings.Contains(second, "Service Unavailable") || strings.Contains(second, "\x1b[J") || strings.Contains(second, "queue") && !strings.Contains(second, "queues of") {
		t.Errorf("picture while the broker is away: %q", second)
	}
}

// A password is asked for twice and never shown, and the terminal is left as it was, also when it is interrupted.
func TestPasswordPrompt(t *testing.T) {
	w := newWorld(t, fakebroker.Config{})
	w.answers["PUT /api/users/shop"] = answer{201, ""}
	for _, c := range []struct {
		name, one, two string
		code           exit.Code
	}{{"same", "geheim\n", "geheim\n", exit.OK}, {"different", "geheim\n", "gehein\n", exit.Data}, {"empty", "\n", "\n", exit.Data}, {"interrupted", "geheim\n", "", exit.Interrupted}} {
		t.Run(c.name, func(t *testing.T) {
			s := newScreen(t, 80, 24)
			ctx, cancel := context.WithCancel(t.Context())
			defer cancel()
			done := make(chan exit.Code, 1)
			go func() { done <- run(ctx, []string{"user", "add", "shop"}, streams{in: s.tty, out: s.tty, err: s.tty}) }()
			s.await("Password: ")
			if s.echoes() {
				t.Error("the terminal shows the password")
			}
			s.typed(c.one)
			s.await("Again: ")
			if s.typed(c.two); c.two == "" {
				cancel()
			}
			if code := <-done; code != c.code {
				t.Errorf("code %d, want %d", code, c.code)
			}
			if !s.echoes() {
				t.Error("the terminal was left without echo")
			}
			if strings.Contains(s.text(), "gehe") {
				t.Errorf("the screen shows %q", s.text())
			}
			s.typed("\n") // lets go who still reads
		})
	}
	if last := w.seen[len(w.seen)-1]; !strings.HasPrefix(last, "GET") || strings.Count(fmt.Sprint(w.seen), `PUT /api/users/shop {"password":"geheim","tags":""}`) != 1 {
		t.Errorf("requests %q", w.seen)
	}
}
