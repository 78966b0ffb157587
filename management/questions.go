package management

import (
	"errors"
	"sync"
	"time"

	"github.com/warrenmq/warren/broker"
	"github.com/warrenmq/warren/internal/codec"
	"github.com/warrenmq/warren/meta"
)

// What the nodes' APIs ask each other through Host.AskNode. The numbers travel between versions: only add at the end.
const (
	// askFacts is asked once a second: what the node is and uses, and what changed of the queues that it leads. See report.
	askFacts = 1
	// askPart takes the next part of an answer that was too large for one message.
	askPart = 2
	// askConnections, askChannels and askConsumers list what the node's broker serves, all or what the question names.
	askConnections = 3
	askChannels    = 4
	askConsumers   = 5
	// askTraffic are the bytes of connections per virtual host, askExchanges the messages through exchanges.
	askTraffic   = 6
	askExchanges = 7
	// askQueue tells how one queue is at this moment.
	askQueue = 8
	// askClose closes a connection, or those of a user.
	askClose = 9
	// askPeek looks at messages of a queue that has a replica there.
	askPeek = 10
	// askExchange are the samples of one exchange, whose name stands where that of a queue does.
	askExchange = 11
	// askAttempts are the logins at the node, which with the reason reset counts anew.
	askAttempts = 12
	// askSetLimits sets limits of the node: the reason has them.
	askSetLimits = 13
	// askScan looks at ready messages behind a place and how they died.
	askScan = 14
	// askRedrives lists the redrives of the node; askStopRedrive ends the one that the reason names.
	askRedrives    = 15
	askStopRedrive = 16
)

// question is what one node asks another. What a kind does not need is empty.
type question struct {
	kind uint64
	// vhost and queue name a queue, connection and channel what bears these names, user whose things; reason is for askClose and askSetLimits.
	vhost, queue, connection, channel, user, reason string
	// id is the queue of askQueue and askPeek.
	id uint64
	// epoch and since say what the asker knows already of the node's queues; zero for nothing.
	epoch, since uint64
	// answer and part name a part of an answer.
	answer, part uint64
	// unacked, offset, count and truncate are for askPeek; askScan has its place in priority and after.
	unacked                 bool
	offset, count, truncate uint64
	// span asks for samples of what is named.
	span            span
	priority, after uint64
}

func (q *question) pack(p *pack) {
	p.uint(&q.kind)
	for _, s := range [...]*string{&q.vhost, &q.queue, &q.connection, &q.channel, &q.user, &q.reason} {
		p.text(s)
	}
	p.uints(&q.id, &q.epoch, &q.since, &q.answer, &q.part)
	p.bool(&q.unacked)
	p.uints(&q.offset, &q.count, &q.truncate)
	p.int64(&q.span.age)
	p.int64(&q.span.incr)
	p.uints(&q.priority, &q.after)
}

// encode returns the question as it is sent.
func (q question) encode() []byte {
	p := &pack{}
	q.pack(p)
	return p.out
}

const (
	// partBytes is how much of an answer goes into one message; a link takes 4 MiB.
	partBytes = 1 << 20
	// answerBytesMax bounds an answer; beyond it the question is refused. A hundred thousand connections take about 50 MiB.
	answerBytesMax = 128 << 20
	// answersKept bounds the answers whose further parts wait to be taken; beyond it the oldest is dropped.
	answersKept = 8
	// answerKeptFor is how long the further parts of an answer may wait to be taken.
	answerKeptFor = 10 * time.Second
)

// answers keeps what did not fit into one message.
type answers struct {
	mu   sync.Mutex
	last uint64
	kept []keptAnswer // oldest first
}

type keptAnswer struct {
	id   uint64
	made time.Time
	body []byte
}

// first returns the first message of an answer: its number, how many parts it has, the first of them.
func (a *answers) first(body []byte) ([]byte, error) {
	if len(body) > answerBytesMax {
		return nil, errors.New("the answer is too large")
	}
	parts := max(1, (len(body)+partBytes-1)/partBytes)
	id := uint64(0)
	if parts > 1 {
		a.mu.Lock()
		a.last++
		id = a.last
		a.drop(func(k *keptAnswer) bool { return time.Since(k.made) < answerKeptFor })
		if len(a.kept) == answersKept {
			a.kept = a.kept[1:]
		}
		a.kept = append(a.kept, keptAnswer{id, time.Now(), body})
		a.mu.Unlock()
	}
	out := codec.AppendUvarint(make([]byte, 0, min(len(body), partBytes)+16), id)
	out = codec.AppendUvarint(out, uint64(parts))
	return append(out, body[:min(len(body), partBytes)]...), nil
}

// part returns a further part. The last one ends it.
func (a *answers) part(id, part uint64) ([]byte, error) {
	a.mu.Lock()
	defer a.mu.Unlock()
	for i := range a.kept {
		k := &a.kept[i]
		if k.id != id {
			continue
		}
		if part >= uint64(len(k.body)+partBytes-1)/partBytes {
			break
		}
		from := int(part) * partBytes
		to := min(from+partBytes, len(k.body))
		body := k.body[from:to]
		if to == len(k.body) {
			a.drop(func(k *keptAnswer) bool { return k.id != id })
		}
		return body, nil
	}
	return nil, errors.New("this part of an answer is not there any more")
}

// drop keeps what keep says. Called with a.mu held.
func (a *answers) drop(keep func(*keptAnswer) bool) {
	var kept []keptAnswer
	for i := range a.kept {
		if keep(&a.kept[i]) {
			kept = append(kept, a.kept[i])
		}
	}
	a.kept = kept
}

// answer answers another node's question. It is called by several at a time.
func (s *Server) answer(request []byte) ([]byte, error) {
	var q question
	in := unpack(request)
	q.pack(in)
	if in.in.Err() != nil {
		return nil, in.in.Err()
	}
	if q.kind == askPart {
		return s.answers.part(q.answer, q.part)
	}
	p := &pack{}
	switch q.kind {
	case askFacts:
		s.sampler.report(p, q.epoch, q.since)
	case askConnections:
		list := s.ownConnections(&q)
		packRows(p, &list, packConnection)
	case askChannels:
		list := s.ownChannels(&q)
		packRows(p, &list, packChannel)
	case askConsumers:
		list := s.ownConsumers(&q)
		packRows(p, &list, packConsumer)
	case askTraffic:
		list := s.ownTraffic()
		packRows(p, &list, packTraffic)
	case askExchanges:
		list := s.ownExchanges()
		packRows(p, &list, packExchange)
	case askExchange:
		list := s.ownExchangePast(&q)
		packPast(p, &list)
	case askAttempts:
		list := s.ownAttempts(q.reason == attemptsReset)
		packRows(p, &list, packAttempts)
	case askQueue:
		now, ok := s.ownQueue(meta.QueueID(q.id))
		if !ok {
			return nil, errors.New("the queue is not known here")
		}
		now.pack(p)
	case askPeek:
		if err := s.answerPeek(p, &q); err != nil {
			return nil, err
		}
	case askScan:
		if err := s.answerScan(p, &q); err != nil {
			return nil, err
		}
	case askRedrives:
		list := s.redrives.states()
		packRows(p, &list, packRedrive)
	case askStopRedrive:
		stopped := s.redrives.stop(q.reason)
		p.bool(&stopped)
	case askSetLimits:
		if err := s.setLimits(&q); err != nil {
			return nil, err
		}
	case askClose:
		closed := s.closeOwn(&q)
		p.uint(&closed)
	default:
		return nil, errors.New("the question is not understood by this version")
	}
	return s.answers.first(p.out)
}

// closeOwn closes connections of this node and tells how many.
func (s *Server) closeOwn(q *question) (closed uint64) {
	if q.connection != "" {
		if s.opt.Broker.CloseConnection(q.connection, q.reason) {
			closed = 1
		}
		return closed
	}
	for _, x := range s.opt.Broker.Connections() {
		if q.user != "" && x.User == q.user && s.opt.Broker.CloseConnection(x.Name, q.reason) {
			closed++
		}
	}
	return closed
}

// ownConnections lists connections of this node: all, or the one that is named.
func (s *Server) ownConnections(q *question) []shipped[broker.Connection] {
	all := s.opt.Broker.Connections()
	out := make([]shipped[broker.Connection], 0, len(all))
	keep := func(x *broker.Connection) bool { return q.connection == "" || x.Name == q.connection }
	s.sampler.look(&s.sampler.connections, func(things map[string]*sampledThing) {
		for i := range all {
			if x := &all[i]; keep(x) {
				t := things[x.Name]
				out = append(out, shipped[broker.Connection]{*x, t.rates(), t.samples(q.span)})
			}
		}
	})
	return out
}

// ownChannels lists channels of this node: all, those of a connection, or the one that is named.
func (s *Server) ownChannels(q *question) []shipped[broker.Channel] {
	all := s.opt.Broker.Channels()
	out := make([]shipped[broker.Channel], 0, len(all))
	keep := func(x *broker.Channel) bool {
		return (q.connection == "" || x.Connection == q.connection) && (q.channel == "" || channelName(x) == q.channel)
	}
	s.sampler.look(&s.sampler.channels, func(things map[string]*sampledThing) {
		for i := range all {
			if x := &all[i]; keep(x) {
				t := things[channelName(x)]
				out = append(out, shipped[broker.Channel]{*x, t.rates(), t.samples(q.span)})
			}
		}
	})
	return out
}

// ownConsumers lists consumers of this node: all, those of a queue, or those of a channel.
func (s *Server) ownConsumers(q *question) []shipped[broker.Consumer] {
	all := s.opt.Broker.Consumers()
	out := make([]shipped[broker.Consumer], 0, len(all))
	for i := range all {
		x := &all[i]
		if q.queue != "" && (x.Queue != q.queue || x.VHost != q.vhost) || q.channel != "" && nameOfChannel(x.Connection, x.Number) != q.channel {
			continue
		}
		out = append(out, shipped[broker.Consumer]{thing: *x})
	}
	return out
}
