package clients

import (
	"fmt"
	"os/exec"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	"github.com/warrenmq/warren/e2e/harness"
)

// TestStockClients holds the six tutorials in two languages and Debian's tools against one broker, which must survive them all.
func TestStockClients(t *testing.T) {
	b := harness.StartOrExternal(t, harness.Options{})
	pid := b.Pid()
	t.Run("hello world", func(t *testing.T) { pairs(t, b, true, helloWorld) })
	t.Run("work queues", func(t *testing.T) { pairs(t, b, false, workQueues) })
	t.Run("a worker dies", func(t *testing.T) { pairs(t, b, false, workerDies) })
	t.Run("publish subscribe", func(t *testing.T) { pairs(t, b, false, publishSubscribe) })
	t.Run("routing", func(t *testing.T) { pairs(t, b, false, routing) })
	t.Run("topics", func(t *testing.T) { pairs(t, b, false, topics) })
	t.Run("rpc", func(t *testing.T) { pairs(t, b, true, remoteCalls) })
	t.Run("amqp-tools", func(t *testing.T) { amqpTools(t, b) })
	t.Run("kombu", func(t *testing.T) { kombuExchanges(t, b) })
	if !b.Running() || b.Pid() != pid {
		t.Error("the broker did not survive its clients")
	}
}

// kombuExchanges holds another Python library, which logs in with AMQPLAIN: headers, bindings between exchanges, an alternate exchange, recover.
func kombuExchanges(t *testing.T, b *harness.Broker) {
	python := harness.Python(t, "kombu")
	got := runProgram(t, b, exec.Command(python, filepath.Join("python", "kombu_exchanges.py")))
	want := []string{"all both", "any both one", "known k.known", "lost k.unknown", "unbound nothing", "before again", "after again*"}
	if !slices.Equal(got, want) {
		t.Errorf("kombu printed %q, want %q", got, want)
	}
}

func helloWorld(t *testing.T, s *stage) {
	s.broker.DropQueue(t, "hello")
	// A message waits for its receiver as well as the other way round.
	s.send("hello_send")
	r := s.receive("hello_receive")
	r.want("received Hello World!")
	s.send("hello_send")
	r.want("received Hello World!")
}

func workQueues(t *testing.T, s *stage) {
	s.broker.DropQueue(t, "task_queue")
	tasks := numbered("task %d.", 40)
	workers := []*receiver{s.start("worker"), s.start("worker")}
	ready(workers...)
	s.send("new_task", tasks...)
	done := make([]int, len(workers))
	var finished []string
	for len(finished) < len(tasks) {
		w := 0
		var line string
		select {
		case line = <-workers[0].lines:
		case line = <-workers[1].lines:
			w = 1
		}
		if task, ok := strings.CutPrefix(line, "done "); ok {
			done[w]++
			finished = append(finished, task)
		} else if !strings.HasSuffix(line, "redelivered=false") {
			t.Fatalf("a worker printed %q", line)
		}
	}
	slices.Sort(finished)
	slices.Sort(tasks)
	if !slices.Equal(finished, tasks) {
		t.Errorf("done were %q", finished)
	}
	if done[0] < 5 || done[1] < 5 {
		t.Errorf("with prefetch 1 the work was split %d and %d", done[0], done[1])
	}
	s.broker.AwaitCount(t, "task_queue", 0)
}

func workerDies(t *testing.T, s *stage) {
	s.broker.DropQueue(t, "task_queue")
	first := s.receive("worker")
	long := "long" + strings.Repeat(".", 2000)
	s.send("new_task", long, "short")
	first.want("received " + long + " redelivered=false")
	first.proc.Kill()
	second := s.receive("worker")
	// The task of the dead worker is at its old place, before the others.
	second.want("received " + long + " redelivered=true")
	second.proc.Kill()
	s.broker.AwaitCount(t, "task_queue", 2)
}

func publishSubscribe(t *testing.T, s *stage) {
	s.broker.DropExchange(t, "logs")
	s.send("emit_log", "nobody hears this")
	a, b := s.start("receive_logs"), s.start("receive_logs")
	ready(a, b)
	texts := numbered("line %d", 20)
	s.send("emit_log", texts...)
	for _, text := range texts {
		a.want("received :" + text)
		b.want("received :" + text)
	}
	a.wantNothingMore()
	b.wantNothingMore()
}

func routing(t *testing.T, s *stage) {
	s.broker.DropExchange(t, "direct_logs")
	loud := s.start("receive_logs_direct", "warning", "error")
	all := s.start("receive_logs_direct", "info", "warning", "error")
	ready(loud, all)
	s.send("emit_log_direct", "info", "fine", "debug", "for nobody", "error", "broken", "warning", "odd")
	loud.want("received error:broken", "received warning:odd")
	all.want("received info:fine", "received error:broken", "received warning:odd")
	loud.wantNothingMore()
	all.wantNothingMore()
}

func topics(t *testing.T, s *stage) {
	s.broker.DropExchange(t, "topic_logs")
	patterns := map[string][]string{
		"#":               {"#"},
		"kern.*":          {"kern.*"},
		"*.critical":      {"*.critical"},
		"both":            {"kern.*", "*.critical"},
		"kern.#.critical": {"kern.#.critical"},
	}
	want := map[string][]string{
		"#":               {"kern.critical", "kern.info", "auth.critical", "kern.a.b.critical", "kern", "end.critical"},
		"kern.*":          {"kern.critical", "kern.info"},
		"*.critical":      {"kern.critical", "auth.critical", "end.critical"},
		"both":            {"kern.critical", "kern.info", "auth.critical", "end.critical"}, // once, though two bindings match
		"kern.#.critical": {"kern.critical", "kern.a.b.critical"},
	}
	receivers := map[string]*receiver{}
	for name, keys := range patterns {
		receivers[name] = s.start("receive_logs_topic", keys...)
	}
	for _, r := range receivers {
		ready(r)
	}
	var sent []string
	for _, key := range want["#"] {
		sent = append(sent, key, "text")
	}
	s.send("emit_log_topic", sent...)
	for name, r := range receivers {
		for _, key := range want[name] {
			r.want(fmt.Sprintf("received %s:text", key))
		}
	}
	for _, r := range receivers {
		r.wantNothingMore()
	}
}

func remoteCalls(t *testing.T, s *stage) {
	s.broker.DropQueue(t, "rpc_queue")
	ready(s.start("rpc_server"), s.start("rpc_server"))
	numbers, want := []string{}, []string{}
	for i, a, b := 0, 0, 1; i <= 30; i, a, b = i+1, b, a+b {
		numbers = append(numbers, fmt.Sprint(i))
		want = append(want, fmt.Sprintf("fib(%d) = %d", i, a))
	}
	if got := s.send("rpc_client", numbers...); !slices.Equal(got, want) {
		t.Errorf("the calls returned %q, want %q", got, want)
	}
}
