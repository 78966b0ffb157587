package exchange

import (
	"cmp"
	"math"
	"math/bits"
	"slices"
	"strconv"
	"strings"

	"github.com/warrenmq/warren/amqp"
	"github.com/warrenmq/warren/meta"
)

// oracle routes the slow and obvious way, straight from the View.
func (w *world) oracle(v *meta.View, vhost, exchange string, keys []string, headers amqp.Table) ([]meta.QueueID, Reason) {
	queues, _, reason := w.walk(v, vhost, exchange, keys, headers)
	return queues, reason
}

// keptBy are the histories of the exchanges that a message passes.
func (w *world) keptBy(v *meta.View, vhost, exchange string, keys []string, headers amqp.Table) (histories []meta.QueueID) {
	if noStore, ok := headers.Get(meta.HeaderNoStore); ok && noStore.Equal(amqp.Bool(true)) {
		return nil
	}
	_, passed, _ := w.walk(v, vhost, exchange, keys, headers)
	for _, name := range passed {
		if x := v.Exchange(vhost, name); x.RoutingType() == meta.TypeRecentHistory && !w.relays(x, headers) {
			histories = append(histories, v.History(vhost, name).ID)
		}
	}
	return histories
}

// relays tells whether the exchange leads the message to its relay alone.
func (w *world) relays(x *meta.Exchange, headers amqp.Table) bool {
	id, identified := headers.Get(meta.HeaderDedup)
	named, _ := x.Arguments.Get(meta.ArgDelayedType)
	dedups := x.Type == meta.TypeDeduplication || x.Type == meta.TypeDelayed && named.Equal(amqp.Longstr(meta.TypeDeduplication))
	return !w.through && x.Name != w.passed && (w.delayed && x.Type == meta.TypeDelayed || dedups && identified && !id.IsVoid())
}

func (w *world) walk(v *meta.View, vhost, exchange string, keys []string, headers amqp.Table) (queues []meta.QueueID, passed []string, _ Reason) {
	x := v.Exchange(vhost, exchange)
	if x == nil {
		return nil, nil, NoExchange
	}
	passed = []string{exchange}
	for i := 0; i < len(passed); i++ {
		x := v.Exchange(vhost, passed[i])
		matched := false
		reach := func(name string) {
			if v.Exchange(vhost, name) != nil && !slices.Contains(passed, name) {
				passed = append(passed, name)
			}
		}
		if x.Name == "" {
			for _, key := range keys {
				if q := v.Queue(vhost, key); q != nil {
					queues = append(queues, q.ID)
				}
			}
			continue
		}
		if w.relays(x, headers) {
			queues = append(queues, v.Relay(vhost, x.Name).ID)
			continue
		}
		taken := func(b *meta.Binding) {
			matched = true
			if b.Kind == meta.ToQueue {
				queues = append(queues, v.Queue(vhost, b.Destination).ID)
			} else {
				reach(b.Destination)
			}
		}
		for b := range v.BindingsFrom(vhost, x.Name) {
			if !slices.ContainsFunc(keys, func(key string) bool { return naiveMatch(x.RoutingType(), b, key, headers) }) {
				continue
			}
			taken(b)
		}
		if b := w.naiveChoice(v, x, keys[0], headers); b != nil {
			taken(b)
		}
		if ae, ok := x.Effective("alternate-exchange"); ok && !matched {
			name, _ := ae.AsString()
			reach(name)
		}
	}
	slices.Sort(queues)
	queues = slices.Compact(queues)
	if x.Internal {
		return queues, passed, Internal
	}
	return queues, passed, OK
}

// naiveChoice is the one binding that an exchange chooses whose type does so.
func (w *world) naiveChoice(v *meta.View, x *meta.Exchange, key string, headers amqp.Table) (best *meta.Binding) {
	var places []*meta.Binding // one for each destination: queues by id, then exchanges by name
	for b := range v.BindingsFrom(x.VHost, x.Name) {
		if len(places) == 0 || places[len(places)-1].Kind != b.Kind || places[len(places)-1].Destination != b.Destination {
			places = append(places, b)
		}
	}
	slices.SortStableFunc(places, func(a, b *meta.Binding) int {
		return cmp.Or(cmp.Compare(a.Kind, b.Kind), cmp.Compare(a.Queue, b.Queue), cmp.Compare(a.Destination, b.Destination))
	})
	hash := hashText(key)
	switch x.RoutingType() {
	case meta.TypeConsistentHash:
		if name, ok := x.Arguments.Get("hash-header"); ok {
			header, _ := name.AsString()
			value, _ := headers.Get(header)
			text, _ := value.AsString()
			hash = hashText(text)
			if n, ok := value.AsInt64(); ok {
				hash = mix(uint64(n) ^ hashStart)
			}
		}
		least := math.Inf(1)
		for _, b := range places {
			weight := 0
			for b := range v.BindingsBetween(x.VHost, x.Name, b.Kind, b.Destination) {
				if n, err := strconv.Atoi(b.RoutingKey); err == nil && n > 0 && n <= 10000 && (weight == 0 || n < weight) {
					weight = n
				}
			}
			u := (float64(mix(hash^hashText(b.Kind.String()+b.Destination))>>11) + 0.5) / (1 << 53)
			if score := -math.Log(u) / float64(weight); weight > 0 && score < least {
				best, least = b, score
			}
		}
	case meta.TypeModulusHash:
		if n := uint64(len(places)); n > 0 {
			return places[hash%n]
		}
	case meta.TypeRandom:
		if len(places) > 0 {
			i, _ := bits.Mul64(w.random, uint64(len(places)))
			return places[i]
		}
	case meta.TypeLocalRandom:
		locals := uint64(0)
		for _, b := range places {
			if b.Kind != meta.ToQueue || b.Queue%2 != 0 {
				continue
			}
			locals++
			if i, _ := bits.Mul64(w.random, locals); i == 0 {
				best = b
			}
		}
	}
	return best
}

func naiveMatch(exchangeType string, b *meta.Binding, key string, headers amqp.Table) bool {
	switch exchangeType {
	case "direct":
		return b.RoutingKey == key
	case "fanout", meta.TypeRecentHistory:
		return true
	case "topic":
		return naiveTopic(splitWords(b.RoutingKey), splitWords(key))
	case "headers":
		return naiveHeaders(b.Arguments.Table(), headers)
	}
	return false
}

func splitWords(key string) []string {
	if key == "" {
		return nil
	}
	return strings.Split(key, ".")
}

// naiveTopic fills the table reach[i][j]: the first i words of the pattern match the first j words of the key.
func naiveTopic(pattern, key []string) bool {
	reach := make([][]bool, len(pattern)+1)
	for i := range reach {
		reach[i] = make([]bool, len(key)+1)
		for j := range reach[i] {
			switch {
			case i == 0:
				reach[i][j] = j == 0
			case pattern[i-1] == "#":
				reach[i][j] = reach[i-1][j] || j > 0 && reach[i][j-1]
			case j > 0:
				reach[i][j] = reach[i-1][j-1] && (pattern[i-1] == "*" || pattern[i-1] == key[j-1])
			}
		}
	}
	return reach[len(pattern)][len(key)]
}

func naiveHeaders(args, headers amqp.Table) bool {
	mode := "all"
	if v, ok := args.Get("x-match"); ok {
		mode, _ = v.AsString()
	}
	found, wanted := 0, 0
	for _, f := range args {
		if f.Key == "x-match" || strings.HasPrefix(f.Key, "x-") && !strings.HasSuffix(mode, "-with-x") {
			continue
		}
		wanted++
		if v, ok := headers.Get(f.Key); ok && (f.Value.IsVoid() || naiveValue(v) == naiveValue(f.Value)) {
			found++
		}
	}
	if strings.HasPrefix(mode, "any") {
		return found > 0
	}
	return found == wanted
}

// naiveValue prints a value so that equal values of different types print alike.
func naiveValue(v amqp.Value) string {
	text := v.String()
	if s, ok := v.AsString(); ok {
		return "text " + s
	}
	if s, ok := v.AsBytes(); ok {
		return "text " + s
	}
	_, isBool := v.AsBool()
	if i := strings.IndexByte(text, '('); i >= 0 && !isBool {
		return "number " + strings.TrimSuffix(text[i+1:], ")")
	}
	return v.Type() + text
}
