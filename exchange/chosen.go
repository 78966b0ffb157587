package exchange

import (
	"math"
	"math/bits"
	"slices"
	"strconv"
	"strings"

	"github.com/warrenmq/warren/internal/cow"
	"github.com/warrenmq/warren/meta"
)

// Types that lead a message to one of their destinations: x-consistent-hash and x-modulus-hash by a hash, x-random and x-local-random by chance.

// place is a destination of a consistent hash exchange with the share of the messages that it takes.
type place struct {
	queue    meta.QueueID // 0 if the destination is an exchange
	exchange string
	weight   int
	// seed stands for the destination's name, inverse is 1/weight.
	seed    uint64
	inverse float64
}

func (p *place) compare(q *place) int {
	switch {
	case p.queue < q.queue:
		return -1
	case p.queue > q.queue:
		return 1
	}
	return strings.Compare(p.exchange, q.exchange)
}

// ring is the destinations of a consistent hash exchange: by queue id, after exchanges by name. A message goes to the place that wins a weighted lottery whose tickets are drawn from the hash
// and the name of the place alone. So the shares are those of the weights, the outcome is the same on every node and after every restart, and a place that comes or goes moves only the messages
// that it gets or had.
type ring struct {
	places []place
	owner  *update
}

// pick returns the winner of a hash: the place with the least -ln(u)/weight, where u is its uniformly distributed ticket. Most places are out without a logarithm, for -ln(u) >= 1-u.
func (r *ring) pick(hash uint64) *place {
	best, winner := math.Inf(1), (*place)(nil)
	for i := range r.places {
		p := &r.places[i]
		u := (float64(mix(hash^p.seed)>>11) + 0.5) / (1 << 53)
		if (1-u)*p.inverse >= best {
			continue
		}
		if score := -math.Log(u) * p.inverse; score < best {
			best, winner = score, p
		}
	}
	return winner
}

// hashedOn tells what a hash is taken of.
type hashedOn uint8

const (
	hashedKey hashedOn = iota
	hashedHeader
	hashedMessageID
	hashedCorrelationID
	hashedTimestamp
)

// hashOf reads the arguments of an exchange. header is the name for hashedHeader.
func hashOf(x *meta.Exchange) (on hashedOn, header string) {
	if v, ok := x.Arguments.Get(meta.ArgHashHeader); ok {
		header, _ = v.AsString()
		return hashedHeader, header
	}
	v, _ := x.Arguments.Get(meta.ArgHashProperty)
	switch name, _ := v.AsString(); name {
	case "message_id":
		return hashedMessageID, ""
	case "correlation_id":
		return hashedCorrelationID, ""
	case "timestamp":
		return hashedTimestamp, ""
	}
	return hashedKey, ""
}

// hashMessage hashes what the exchange says. What a message does not have hashes like an empty text, so all such messages go the same way.
func hashMessage[T cow.Text](w *hop, x *compiled, key T) uint64 {
	if x.hashed == hashedKey {
		return hashText(key)
	}
	p := w.m.Properties
	if p == nil {
		return hashText("")
	}
	var text []byte
	switch x.hashed {
	case hashedHeader:
		return hashHeader(w, x.header)
	case hashedMessageID:
		text, _ = p.MessageID()
	case hashedCorrelationID:
		text, _ = p.CorrelationID()
	case hashedTimestamp:
		if seconds, ok := p.Timestamp(); ok {
			var room [20]byte
			text = strconv.AppendUint(room[:0], seconds, 10)
		}
	}
	return hashText(text)
}

// hashHeader hashes a header by its value and not its type: integers of any width alike.
func hashHeader(w *hop, name string) uint64 {
	v, ok := w.headers().Lookup(name)
	if !ok {
		return hashText("")
	}
	if text, ok := v.Longstr(); ok {
		return hashText(text)
	}
	if n, ok := v.AsInt64(); ok {
		return mix(uint64(n) ^ hashStart)
	}
	return hashText(v.Value().String())
}

const (
	hashStart uint64 = 14695981039346656037
	hashStep  uint64 = 1099511628211
)

// hashText is FNV-1a, well mixed.
func hashText[T cow.Text](s T) uint64 {
	h := hashStart
	for i := 0; i < len(s); i++ {
		h = (h ^ uint64(s[i])) * hashStep
	}
	return mix(h)
}

// mix spreads the bits of a number over all of them, one to one.
func mix(z uint64) uint64 {
	z = (z ^ z>>30) * 0xbf58476d1ce4e5b9
	z = (z ^ z>>27) * 0x94d049bb133111eb
	return z ^ z>>31
}

// matchOne leads the message to one destination of an exchange that chooses.
func matchOne[T cow.Text](w *hop, x *compiled, key T) {
	if x.kind == consistentHashKind {
		if x.ring != nil {
			w.addPlace(x.ring.pick(hashMessage(w, x, key)))
		}
		return
	}
	t := x.fanout
	if t == nil {
		return
	}
	switch x.kind {
	case modulusHashKind:
		w.addNth(t, hashText(key)%uint64(len(t.queues)+len(t.exchanges)))
	case randomKind:
		n, _ := bits.Mul64(w.h.node.random(), uint64(len(t.queues)+len(t.exchanges)))
		w.addNth(t, n)
	case localRandomKind:
		w.addLocal(t)
	}
}

func (w *hop) addPlace(p *place) {
	w.matched = true
	if p.queue == 0 {
		w.pass(p.exchange)
		return
	}
	w.addQueue(p.queue)
}

func (w *hop) addQueue(id meta.QueueID) {
	w.matched = true
	w.lists++
	w.dst = append(w.dst, id)
}

// addNth adds one of the targets, which are numbered queues first.
func (w *hop) addNth(t *targets, n uint64) {
	if n < uint64(len(t.queues)) {
		w.addQueue(t.queues[n])
		return
	}
	w.matched = true
	w.pass(t.exchanges[n-uint64(len(t.queues))])
}

// addLocal adds one of the queues that are on this node, each with the same chance.
func (w *hop) addLocal(t *targets) {
	found, chosen := uint64(0), meta.QueueID(0)
	for _, id := range t.queues {
		if !w.h.node.local(id) {
			continue
		}
		found++
		if n, _ := bits.Mul64(w.h.node.random(), found); n == 0 {
			chosen = id
		}
	}
	if found > 0 {
		w.addQueue(chosen)
	}
}

// weigh brings the place of a binding's destination up to date with the newer View. Of several bindings between the same ends the least weight counts.
func (u *update) weigh(r *ring, b *meta.Binding) *ring {
	p := place{exchange: b.Destination, seed: hashText(b.Kind.String() + b.Destination)}
	if b.Kind == meta.ToQueue {
		p.queue, p.exchange = b.Queue, ""
	}
	for other := range u.view.BindingsBetween(b.VHost, b.Source, b.Kind, b.Destination) {
		if weight, problem := meta.HashWeight(other.RoutingKey); problem == "" && other.Queue == b.Queue && (p.weight == 0 || weight < p.weight) {
			p.weight = weight
		}
	}
	var places []place
	if r != nil {
		places = r.places
	}
	i, found := slices.BinarySearchFunc(places, &p, func(a place, b *place) int { return a.compare(b) })
	switch {
	case !found && p.weight == 0, found && places[i].weight == p.weight:
		return r
	case r == nil || r.owner != u:
		r = &ring{places: slices.Clone(places), owner: u}
	}
	switch {
	case p.weight == 0:
		r.places = slices.Delete(r.places, i, i+1)
	case !found:
		r.places = slices.Insert(r.places, i, p)
	}
	if p.weight > 0 {
		p.inverse = 1 / float64(p.weight)
		r.places[i] = p
	}
	if len(r.places) == 0 {
		return nil
	}
	return r
}
