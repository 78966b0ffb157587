package exchange

import (
	"fmt"
	"math/rand/v2"
	"slices"
	"strings"
	"testing"

	"github.com/warrenmq/warren/amqp"
	"github.com/warrenmq/warren/internal/machine"
	"github.com/warrenmq/warren/internal/script"
	"github.com/warrenmq/warren/meta"
)

// world is a catalogue with its router, which is only ever made by Update.
type world struct {
	t      testing.TB
	m      *meta.Machine
	router *Router
	index  uint64
	// random is what the source of random numbers returns; local queues have even ids.
	random uint64
	// histories are those that keep the message that was routed last.
	histories []meta.QueueID
	// delayed says that messages are to wait, passed whose relay they come from.
	delayed bool
	passed  string
	// through routes as if there were no relays.
	through bool
}

func newWorld(t testing.TB) *world {
	w := &world{t: t, m: meta.New()}
	w.router = Compile(w.m.View(), w.node())
	w.apply(meta.Command{Op: meta.OpPutVHost, VHost: meta.VHost{Name: "/"}})
	w.update()
	return w
}

func (w *world) node() Node {
	return Node{Random: func() uint64 { return w.random }, Local: func(id meta.QueueID) bool { return id%2 == 0 }}
}

// withHeaders is a message with the headers.
func withHeaders(t testing.TB, headers amqp.Table) *Message {
	var p amqp.Properties
	p.SetHeaders(headers)
	return withProperties(t, &p)
}

func withProperties(t testing.TB, p *amqp.Properties) *Message {
	t.Helper()
	v, err := amqp.ScanProperties(p.Append(nil))
	if err != nil {
		t.Fatal(err)
	}
	return &Message{Properties: &v}
}

func (w *world) apply(c meta.Command) meta.Reply {
	w.index++
	r, _ := w.m.Apply(machine.Stamp{Index: w.index}, &c, nil)
	return r
}

func (w *world) update() { w.router = w.router.Update(w.m.View()) }

func (w *world) queue(name string) meta.Reply {
	return w.apply(meta.Command{Op: meta.OpDeclareQueue, Queue: meta.Queue{VHost: "/", Name: name, Durable: true, Replicas: []meta.NodeID{1}}})
}

func (w *world) deleteQueue(name string) meta.Reply {
	id := meta.QueueID(0)
	if q := w.m.View().Queue("/", name); q != nil {
		id = q.ID
	}
	return w.apply(meta.Command{Op: meta.OpDeleteQueue, Queue: meta.Queue{ID: id}})
}

func (w *world) exchange(name, exchangeType string, args amqp.Table) meta.Reply {
	x := meta.Exchange{
		VHost: "/", Name: name, Type: exchangeType, Arguments: meta.NewArguments(args), AutoDelete: strings.HasPrefix(name, "auto"), Internal: strings.HasPrefix(name, "internal"),
	}
	reply := w.apply(meta.Command{Op: meta.OpDeclareExchange, Exchange: x})
	if x.RoutingType() == meta.TypeRecentHistory {
		w.apply(meta.HistoryCommand(&x, []meta.NodeID{1}))
	}
	if x.HasRelay() {
		w.apply(meta.RelayCommand(&x, []meta.NodeID{1}))
	}
	return reply
}

func (w *world) bind(op meta.Op, source string, kind meta.DestinationKind, destination, key string, args amqp.Table) meta.Reply {
	return w.apply(meta.Command{Op: op, Binding: meta.Binding{
		VHost: "/", Source: source, Kind: kind, Destination: destination, RoutingKey: key, Arguments: meta.NewArguments(args),
	}})
}

// route asks the router, a router compiled from nothing and the oracle; all three must agree.
func (w *world) route(exchange, key string, copies []string, headers amqp.Table) ([]meta.QueueID, Reason) {
	w.t.Helper()
	m := withHeaders(w.t, headers)
	m.Copies, m.Delayed, m.Through = copies, w.delayed, w.through
	v := w.router.View()
	if q := v.Relay("/", w.passed); q != nil {
		m.Passed = q.ID
	}
	want, wantReason := w.oracle(v, "/", exchange, append([]string{key}, copies...), headers)
	got, reason := w.router.Route("/", []byte(exchange), []byte(key), m, nil)
	w.histories = w.keptBy(v, "/", exchange, append([]string{key}, copies...), headers)
	if !slices.Equal(m.Histories, w.histories) {
		w.t.Fatalf("%q %q %v: kept by %v, oracle %v", exchange, key, headers, m.Histories, w.histories)
	}
	if reason != wantReason || !slices.Equal(got, want) {
		w.t.Fatalf("%q %q %v: router %v %v, oracle %v %v", exchange, key, headers, got, reason, want, wantReason)
	}
	m.Histories = nil
	got, reason = Compile(v, w.node()).VHost("/").RouteString(exchange, key, m, nil)
	if !slices.Equal(m.Histories, w.histories) {
		w.t.Fatalf("%q %q %v: kept by %v, compiled %v", exchange, key, headers, w.histories, m.Histories)
	}
	if reason != wantReason || !slices.Equal(got, want) {
		w.t.Fatalf("%q %q %v: compiled %v %v, oracle %v %v", exchange, key, headers, got, reason, want, wantReason)
	}
	return got, reason
}

func TestScripts(t *testing.T) {
	script.RunFiles(t, "testdata/*.txt", func(t *testing.T) func(string) string {
		w := newWorld(t)
		return func(block string) string {
			var out strings.Builder
			for _, l := range script.Lines(t, block) {
				w.line(&out, l)
			}
			return out.String()
		}
	})
}

// line carries out one line of a script: queue Q, delete-queue Q, exchange X TYPE [alternate=Y], delete-exchange X, bind|unbind X queue|exchange D
// [key=K] [@header=value], route X [key=K] [cc=K,L] [delayed] [passed=X] [through] [@header=value]. Only route and refusals print something.
func (w *world) line(out *strings.Builder, l *script.Line) {
	var table amqp.Table
	for _, p := range l.Pairs("@") {
		table = append(table, amqp.Field{Key: p[0][1:], Value: value(l, p[1])})
	}
	var r meta.Reply
	switch l.Verb {
	case "queue":
		r = w.queue(l.Arg(0))
	case "delete-queue":
		r = w.deleteQueue(l.Arg(0))
	case "exchange":
		if s := l.Text("alternate", "none"); s != "none" {
			table = append(table, amqp.Field{Key: "alternate-exchange", Value: amqp.Longstr(s)})
		}
		if s := l.Text("routes", ""); s != "" {
			table = append(table, amqp.Field{Key: meta.ArgDelayedType, Value: amqp.Longstr(s)})
		}
		r = w.exchange(l.Arg(0), l.Arg(1), table)
	case "delete-exchange":
		r = w.apply(meta.Command{Op: meta.OpDeleteExchange, Exchange: meta.Exchange{VHost: "/", Name: l.Arg(0)}})
	case "bind", "unbind":
		op := map[string]meta.Op{"bind": meta.OpBind, "unbind": meta.OpUnbind}[l.Verb]
		kind := map[string]meta.DestinationKind{"queue": meta.ToQueue, "exchange": meta.ToExchange}[l.Arg(1)]
		r = w.bind(op, l.Arg(0), kind, l.Arg(2), l.Text("key", ""), table)
	case "route":
		var copies []string
		if cc := l.Text("cc", ""); cc != "" {
			copies = strings.Split(cc, ",")
		}
		w.delayed, w.passed = l.Has("delayed"), l.Text("passed", "")
		w.through = l.Has("through")
		ids, reason := w.route(l.Arg(0), l.Text("key", ""), copies, table)
		fmt.Fprintf(out, "%s:", l)
		for _, id := range ids {
			fmt.Fprintf(out, " %s", w.m.View().QueueByID(id).Name)
		}
		for _, id := range w.histories {
			name, _ := w.m.View().QueueByID(id).HistoryOf()
			fmt.Fprintf(out, " [%s]", name)
		}
		if reason != OK {
			fmt.Fprintf(out, " (%s)", reason)
		}
		fmt.Fprintln(out)
		return
	default:
		l.Fatalf("unknown verb")
	}
	if r.Reason != meta.ReasonOK {
		fmt.Fprintf(out, "%s: %s %s\n", l, r.Reason, r.Detail)
	}
	w.update()
}

func value(l *script.Line, s string) amqp.Value {
	typ, text, ok := strings.Cut(s, ":")
	if !ok {
		typ, text = "longstr", s
	}
	switch typ {
	case "int":
		return amqp.Int32(int32(l.ParseInt(text)))
	case "long":
		return amqp.Int64(l.ParseInt(text))
	case "double":
		return amqp.Float64(float64(l.ParseInt(text)))
	case "timestamp":
		return amqp.Timestamp(uint64(l.ParseInt(text)))
	case "bool":
		return amqp.Bool(text == "true")
	case "void":
		return amqp.Void()
	case "bytes":
		return amqp.Bytes(text)
	}
	return amqp.Longstr(text)
}

// change makes one random change to the world.
func (w *world) change(r *rand.Rand) {
	pick := func(words ...string) string { return words[r.IntN(len(words))] }
	exchanges := []string{"d", "f", "t", "h", "auto-t", "internal-f", "c", "ch", "m", "r", "l", "rh", "dt", "dh", "dd", "id", "amq.topic", "missing"}
	types := map[string]string{
		"d": "direct", "f": "fanout", "t": "topic", "h": "headers", "auto-t": "topic", "internal-f": "fanout", "c": meta.TypeConsistentHash, "ch": meta.TypeConsistentHash, "m": meta.TypeModulusHash,
		"r": meta.TypeRandom, "l": meta.TypeLocalRandom, "rh": meta.TypeRecentHistory,
		"dt": meta.TypeDelayed, "dh": meta.TypeDelayed, "dd": meta.TypeDelayed, "id": meta.TypeDeduplication,
	}
	w.random = r.Uint64()
	switch r.IntN(21) {
	case 20:
		p := meta.Policy{VHost: "/", Name: pick("p", "o"), Pattern: pick("", "^[a-f]", "h$", "t"), ApplyTo: meta.ApplyToAll, Priority: int64(r.IntN(2))}
		p.Definition = meta.NewArguments(amqp.Table{{Key: "alternate-exchange", Value: amqp.Longstr(pick(exchanges...))}})
		op := meta.OpPutPolicy
		if r.IntN(3) == 0 {
			op = meta.OpDeletePolicy
		}
		w.apply(meta.Command{Op: op, Policy: p})
	case 0:
		w.queue(pick("a", "b", "c", "e", "g"))
	case 1:
		if r.IntN(3) == 0 {
			w.deleteQueue(pick("a", "b", "c", "e", "g"))
		}
	case 2, 3:
		name := exchanges[r.IntN(16)]
		typ := types[name]
		if r.IntN(8) == 0 {
			typ = pick("direct", "fanout", "topic", "headers")
		}
		var args amqp.Table
		if r.IntN(3) == 0 {
			args = amqp.Table{{Key: "alternate-exchange", Value: amqp.Longstr(pick(append(exchanges, "")...))}}
		}
		if name == "ch" {
			args = append(args, amqp.Field{Key: "hash-header", Value: amqp.Longstr("k")})
		}
		if typ == meta.TypeDelayed {
			args = append(args, amqp.Field{Key: meta.ArgDelayedType, Value: amqp.Longstr(map[string]string{"dt": "topic", "dh": meta.TypeRecentHistory, "dd": meta.TypeDeduplication}[name])})
		}
		w.exchange(name, typ, args)
	case 4:
		if r.IntN(3) > 0 {
			break
		}
		w.apply(meta.Command{Op: meta.OpDeleteExchange, Exchange: meta.Exchange{VHost: "/", Name: exchanges[r.IntN(16)]}})
	default:
		op := meta.OpBind
		if r.IntN(3) == 0 {
			op = meta.OpUnbind
		}
		kind, destination := meta.ToQueue, pick("a", "b", "c", "e", "g")
		if r.IntN(4) == 0 {
			kind, destination = meta.ToExchange, pick(exchanges...)
		}
		key, source := randomPattern(r, "ab", true), pick(exchanges...)
		if source[0] == 'c' || r.IntN(4) == 0 {
			key = pick("1", "2", "7", "10000")
		}
		w.bind(op, source, kind, destination, key, randomTable(r, true))
	}
}

func randomPattern(r *rand.Rand, letters string, wild bool) string {
	var words []string
	for range r.IntN(5) {
		switch n := r.IntN(5); {
		case wild && n == 0:
			words = append(words, "#")
		case wild && n == 1:
			words = append(words, "*")
		case n == 2 && r.IntN(4) == 0:
			words = append(words, "")
		default:
			words = append(words, string(letters[r.IntN(len(letters))]))
		}
	}
	return strings.Join(words, ".")
}

func randomTable(r *rand.Rand, binding bool) amqp.Table {
	var t amqp.Table
	if binding && r.IntN(2) == 0 {
		t = append(t, amqp.Field{Key: "x-match", Value: amqp.Longstr([]string{"all", "any", "all-with-x", "any-with-x"}[r.IntN(4)])})
	}
	for _, key := range []string{"k", "l", "x-m"} {
		switch r.IntN(6) {
		case 0:
			t = append(t, amqp.Field{Key: key, Value: amqp.Int32(int32(r.IntN(2)))})
		case 1:
			t = append(t, amqp.Field{Key: key, Value: amqp.Longstr("s")})
		case 2:
			if binding {
				t = append(t, amqp.Field{Key: key, Value: amqp.Void()})
			}
		}
	}
	return t
}

// Whatever changes come in whatever portions, a router that only ever was updated routes as the oracle and as one compiled anew.
func TestUpdatesRouteAsTheOracle(t *testing.T) {
	routed, total := 0, 0
	for seed := range uint64(25) {
		r := rand.New(rand.NewPCG(seed, 1))
		w := newWorld(t)
		for range 80 {
			for range 1 + r.IntN(6) {
				w.change(r)
			}
			w.update()
			for _, x := range []string{"", "d", "f", "t", "h", "auto-t", "internal-f", "c", "ch", "m", "r", "l", "rh", "dt", "dh", "dd", "id", "amq.topic", "missing"} {
				w.delayed, w.passed = r.IntN(2) == 0, []string{"", x, "id"}[r.IntN(3)]
				w.through = r.IntN(6) == 0
				key := randomPattern(r, "ab", false)
				if x == "" && r.IntN(2) == 0 {
					key = "a"
				}
				var copies []string
				for range max(0, r.IntN(5)-2) {
					copies = append(copies, randomPattern(r, "ab", false))
				}
				headers := randomTable(r, false)
				if n := r.IntN(4); n > 1 {
					headers = headers.Set(meta.HeaderDedup, []amqp.Value{amqp.Void(), amqp.Int8(1)}[n-2])
				}
				ids, _ := w.route(x, key, copies, headers)
				total++
				if len(ids) > 0 {
					routed++
				}
			}
		}
	}
	if routed < total/5 {
		t.Fatalf("only %d of %d messages were routed: the test shows nothing", routed, total)
	}
}

// An old router goes on routing as it did.
func TestUpdateLeavesTheOldRouterAlone(t *testing.T) {
	r := rand.New(rand.NewPCG(5, 5))
	w := newWorld(t)
	for range 60 {
		w.change(r)
	}
	w.update()
	old := w.router
	type question struct{ exchange, key string }
	var asked []question
	var answers [][]meta.QueueID
	for range 300 {
		q := question{[]string{"d", "f", "t", "h", "c", "m", ""}[r.IntN(7)], randomPattern(r, "ab", false)}
		ids, _ := old.Route("/", []byte(q.exchange), []byte(q.key), nil, nil)
		asked, answers = append(asked, q), append(answers, ids)
	}
	for range 300 {
		w.change(r)
		w.update()
	}
	for i, q := range asked {
		if ids, _ := old.Route("/", []byte(q.exchange), []byte(q.key), nil, nil); !slices.Equal(ids, answers[i]) {
			t.Fatalf("%v: %v, before the updates %v", q, ids, answers[i])
		}
	}
}

func TestVHostsComeAndGo(t *testing.T) {
	w := newWorld(t)
	w.apply(meta.Command{Op: meta.OpPutVHost, VHost: meta.VHost{Name: "v"}})
	w.queue("q")
	w.update()
	if _, reason := w.router.Route("v", []byte("amq.direct"), []byte("q"), nil, nil); reason != OK {
		t.Fatalf("new virtual host: %v", reason)
	}
	if ids, _ := w.router.Route("v", nil, []byte("q"), nil, nil); len(ids) != 0 {
		t.Fatalf("a queue of another virtual host is reached: %v", ids)
	}
	w.apply(meta.Command{Op: meta.OpDeleteVHost, VHost: meta.VHost{Name: "/"}})
	w.update()
	if _, reason := w.router.Route("/", []byte("amq.direct"), []byte("q"), nil, nil); reason != NoVHost || w.router.VHost("/") != nil {
		t.Fatalf("deleted virtual host: %v", reason)
	}
	w.apply(meta.Command{Op: meta.OpPutVHost, VHost: meta.VHost{Name: "/"}})
	w.update()
	if ids, reason := w.router.Route("/", nil, []byte("q"), nil, nil); reason != OK || len(ids) != 0 {
		t.Fatalf("recreated virtual host: %v %v", ids, reason)
	}
}

// Several messages are routed into one result, in which each queue stands once.
func TestRoutesShareOneResult(t *testing.T) {
	w := newWorld(t)
	for _, name := range []string{"a", "b", "c"} {
		w.queue(name)
		w.bind(meta.OpBind, "amq.topic", meta.ToQueue, name, name+".#", nil)
		w.bind(meta.OpBind, "amq.topic", meta.ToQueue, "c", name+".x", nil)
	}
	w.update()
	h := w.router.VHost("/")
	dst, _ := h.RouteString("amq.topic", "c.x", nil, nil)
	dst, _ = h.RouteString("amq.topic", "a.x", nil, dst)
	dst, _ = h.RouteString("", "c", nil, dst)
	dst, reason := h.RouteString("missing", "c", nil, dst)
	if want := []meta.QueueID{1024, 1026}; !slices.Equal(dst, want) || reason != NoExchange {
		t.Fatalf("routed to %v (%v), want %v", dst, reason, want)
	}
}

// Patterns made to blow up backtracking matchers: the work must stay bounded by words x places. Plain backtracking would take
// about 10^9 steps for each of these keys.
func TestHashPatternsDoNotExplode(t *testing.T) {
	w := newWorld(t)
	w.queue("q")
	for n := 1; n <= 20; n++ {
		w.bind(meta.OpBind, "amq.topic", meta.ToQueue, "q", strings.Repeat("#.", n)+"#", nil)
		w.bind(meta.OpBind, "amq.topic", meta.ToQueue, "q", strings.Repeat("#.a.", n)+"z", nil)
		w.bind(meta.OpBind, "amq.topic", meta.ToQueue, "q", strings.Repeat("#.*.", n)+"z", nil)
	}
	w.update()
	key := strings.TrimSuffix(strings.Repeat("a.", 127), ".")
	for _, key := range []string{key, key + ".b", key + ".z", "", "a"} {
		w.route("amq.topic", key, nil, nil)
	}
	w.queue("r")
	w.exchange("only", "topic", nil)
	w.bind(meta.OpBind, "only", meta.ToQueue, "r", "#.#.#", nil)
	w.bind(meta.OpBind, "only", meta.ToQueue, "q", strings.Repeat("#.a.", 10)+"b", nil)
	w.update()
	if ids, _ := w.route("only", key, nil, nil); len(ids) != 1 {
		t.Fatalf("routed to %v", ids)
	}
}

func FuzzTopic(f *testing.F) {
	f.Add("a.#.b", "a.x.y.b")
	f.Add("#.#.#", "")
	f.Add("*.#", ".")
	f.Add("#.a.#.a", "a.a.a")
	f.Fuzz(func(t *testing.T, pattern, key string) {
		if len(pattern) > meta.NameBytesMax || len(key) > meta.NameBytesMax {
			return
		}
		w := newWorld(t)
		w.queue("q")
		w.bind(meta.OpBind, "amq.topic", meta.ToQueue, "q", "other.*", nil)
		w.bind(meta.OpBind, "amq.topic", meta.ToQueue, "q", pattern, nil)
		w.bind(meta.OpUnbind, "amq.topic", meta.ToQueue, "q", "other.*", nil)
		w.update()
		w.route("amq.topic", key, nil, nil)
		w.bind(meta.OpUnbind, "amq.topic", meta.ToQueue, "q", pattern, nil)
		w.update()
		w.route("amq.topic", key, nil, nil)
	})
}
