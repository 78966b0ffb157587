package cluster

import (
	"fmt"
	"regexp"
	"slices"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/warrenmq/warren/e2e/harness/totalqueue"
)

// trail remembers what became of each message, to explain a verdict.
type trail struct {
	mu    sync.Mutex
	steps map[string][]step // by queue and message
}

// step is one event in the life of a message.
type step struct {
	at   time.Time
	what string
}

func (tr *trail) add(queue string, id totalqueue.ID, format string, args ...any) {
	s := step{time.Now(), fmt.Sprintf(format, args...)}
	tr.mu.Lock()
	defer tr.mu.Unlock()
	if tr.steps == nil {
		tr.steps = map[string][]step{}
	}
	key := queue + " " + id.String()
	tr.steps[key] = append(tr.steps[key], s)
}

// named finds the messages in the text of a verdict.
var named = regexp.MustCompile(`queue (\S+): .*?(n\d+-\S+:\d+)`)

// explain logs what happened to the messages that a verdict gives as examples.
func (tr *trail) explain(t *testing.T, verdict error) {
	t.Helper()
	tr.mu.Lock()
	defer tr.mu.Unlock()
	var keys []string
	for _, m := range named.FindAllStringSubmatch(verdict.Error(), -1) {
		if key := m[1] + " " + m[2]; !slices.Contains(keys, key) {
			keys = append(keys, key)
		}
	}
	for _, key := range keys {
		var b strings.Builder
		for _, s := range tr.steps[key] {
			fmt.Fprintf(&b, "; %s %s", clock(s.at), s.what)
		}
		t.Logf("queue %s%s", key, b.String())
	}
}
