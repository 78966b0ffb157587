package management

import (
	"math"
	"math/bits"
	"time"

	"github.com/warrenmq/warren/amqp"
	"github.com/warrenmq/warren/broker"
	"github.com/warrenmq/warren/internal/codec"
	"github.com/warrenmq/warren/meta"
	"github.com/warrenmq/warren/queue"
	"github.com/warrenmq/warren/quorum"
)

// pack writes values or reads them, in one order that is written down once per type. A reader that comes to the end keeps what it has, so that a node of an older version, which sends fewer
// values, is understood: only add at the end. What is written must belong to the caller alone, though it is not changed.
type pack struct {
	out     []byte
	in      *codec.Reader // nil while writing
	scratch []byte
}

// unpack reads values from src.
func unpack(src []byte) *pack {
	r := codec.NewReader(src)
	return &pack{in: &r}
}

// read tells whether there is a value to be read.
func (p *pack) read() bool { return p.in.Len() > 0 }

func (p *pack) uint(v *uint64) {
	if p.in == nil {
		p.out = codec.AppendUvarint(p.out, *v)
	} else if p.read() {
		*v = p.in.Uvarint()
	}
}

func (p *pack) uints(list ...*uint64) {
	for _, v := range list {
		p.uint(v)
	}
}

// int and int64 are for numbers that are not negative.
func (p *pack) int(v *int) {
	n := uint64(max(*v, 0))
	if p.uint(&n); p.in != nil {
		*v = int(n)
	}
}

func (p *pack) int64(v *int64) {
	n := uint64(max(*v, 0))
	if p.uint(&n); p.in != nil {
		*v = int64(n)
	}
}

func (p *pack) bool(v *bool) {
	if p.in == nil {
		p.out = codec.AppendBool(p.out, *v)
	} else if p.read() {
		*v = p.in.Bool()
	}
}

func (p *pack) text(v *string) {
	if p.in == nil {
		p.out = codec.AppendString(p.out, *v)
	} else if p.read() {
		*v = p.in.String()
	}
}

func (p *pack) bytes(v *[]byte) {
	if p.in == nil {
		p.out = codec.AppendBytes(p.out, *v)
	} else if p.read() {
		*v = p.in.Bytes()
	}
}

func (p *pack) float(v *float64) {
	if p.in == nil {
		p.out = codec.AppendUint64(p.out, math.Float64bits(*v))
	} else if p.read() {
		*v = math.Float64frombits(p.in.Uint64())
	}
}

// time keeps milliseconds; the zero time stays zero.
func (p *pack) time(v *time.Time) {
	n := uint64(0)
	if !v.IsZero() {
		n = uint64(max(v.UnixMilli(), 0))
	}
	p.uint(&n)
	if p.in != nil && n != 0 {
		*v = time.UnixMilli(int64(n))
	}
}

func (p *pack) table(v *amqp.Table) {
	if p.in == nil {
		p.out = codec.AppendBytes(p.out, v.AppendEntries(nil))
		return
	}
	if !p.read() {
		return
	}
	t, err := amqp.DecodeTable(p.in.Bytes())
	if err != nil {
		p.in.Fail(codec.ErrMalformed)
		return
	}
	*v = t
}

func (p *pack) texts(list *[]string) {
	packRows(p, list, func(p *pack, v *string) { p.text(v) })
}

func (p *pack) nodes(list *[]meta.NodeID) {
	n := uint64(len(*list))
	p.uint(&n)
	if p.in == nil {
		for _, id := range *list {
			p.out = codec.AppendUvarint(p.out, uint64(id))
		}
		return
	}
	if n > uint64(p.in.Len()) {
		p.in.Fail(codec.ErrTruncated)
		return
	}
	for range n {
		*list = append(*list, meta.NodeID(p.in.Uvarint()))
	}
}

// rates writes those that are not zero behind a mask that names them; nil is written as none.
func (p *pack) rates(v **rates) {
	mask := uint64(0)
	if p.in == nil && *v != nil {
		for i, rate := range *v {
			if rate != 0 {
				mask |= 1 << i
			}
		}
	}
	p.uint(&mask)
	if mask == 0 {
		return
	}
	if p.in != nil {
		*v = new(rates)
	}
	for ; mask != 0; mask &= mask - 1 {
		if i := bits.TrailingZeros64(mask); i < countersMax {
			p.float(&(*v)[i])
		}
	}
}

func (p *pack) counters(v *counters) {
	n := uint64(len(v))
	p.uint(&n)
	for i := range n {
		var beyond uint64 // of a version that counts more
		if i < countersMax {
			p.uint(&v[i])
		} else if p.uint(&beyond); !p.read() {
			return
		}
	}
}

// rowsAtOnce bounds how many rows are made room for before they are read.
const rowsAtOnce = 1 << 14

// packRows writes or reads a list. Every row has its length in front, so that rows may grow.
func packRows[T any](p *pack, list *[]T, each func(*pack, *T)) {
	if p.in == nil {
		p.out = codec.AppendUvarint(p.out, uint64(len(*list)))
		inner := &pack{out: p.scratch}
		for i := range *list {
			inner.out = inner.out[:0]
			each(inner, &(*list)[i])
			p.out = codec.AppendBytes(p.out, inner.out)
		}
		p.scratch = inner.out
		return
	}
	if !p.read() {
		return
	}
	n := p.in.Count(1)
	*list = make([]T, 0, min(n, rowsAtOnce))
	for range n {
		r := codec.NewReader(p.in.Bytes())
		var v T
		each(&pack{in: &r}, &v)
		if r.Err() != nil {
			p.in.Fail(r.Err())
		}
		if p.in.Err() != nil {
			return
		}
		*list = append(*list, v)
	}
}

// shipped is a thing of a node's broker on its way to another node, with its rates.
type shipped[T any] struct {
	thing T
	rates *rates
	past  []pastSample // if they were asked for
}

func packConnection(p *pack, s *shipped[broker.Connection]) {
	x := &s.thing
	p.text(&x.Name)
	p.text(&x.State)
	p.text(&x.User)
	p.text(&x.VHost)
	p.text(&x.Mechanism)
	p.int(&x.Channels)
	p.int(&x.ChannelMax)
	frameMax, heartbeat := uint64(x.FrameMax), uint64(max(x.Heartbeat, 0))
	p.uints(&frameMax, &heartbeat)
	x.FrameMax, x.Heartbeat = uint32(frameMax), time.Duration(heartbeat)
	p.time(&x.ConnectedAt)
	p.table(&x.Properties)
	p.text(&x.Host)
	p.text(&x.PeerHost)
	p.int(&x.Port)
	p.int(&x.PeerPort)
	p.uints(&x.ReceivedBytes, &x.ReceivedFrames, &x.SentBytes, &x.SentWrites)
	p.int(&x.PendingBytes)
	p.rates(&s.rates)
	packPast(p, &s.past)
	packTLS(p, &x.TLS)
}

func packTLS(p *pack, v **broker.ConnectionTLS) {
	has := *v != nil
	if p.bool(&has); !has {
		return
	}
	if p.in != nil {
		*v = new(broker.ConnectionTLS)
	}
	x := *v
	for _, text := range [...]*string{&x.Protocol, &x.KeyExchange, &x.Cipher, &x.Hash, &x.PeerSubject, &x.PeerIssuer, &x.PeerValidity} {
		p.text(text)
	}
}

func packChannel(p *pack, s *shipped[broker.Channel]) {
	x := &s.thing
	p.text(&x.Connection)
	p.int(&x.Number)
	p.text(&x.User)
	p.text(&x.VHost)
	p.text(&x.State)
	p.text(&x.PeerHost)
	p.int(&x.PeerPort)
	p.bool(&x.Confirm)
	p.bool(&x.Transactional)
	for _, n := range [...]*int{&x.Consumers, &x.Unacked, &x.Unconfirmed, &x.Uncommitted, &x.UncommittedAcks, &x.PrefetchCount, &x.PrefetchGlobal} {
		p.int(n)
	}
	c := &x.Counts
	p.uints(&c.Published, &c.Confirmed, &c.Returned, &c.Dropped, &c.Delivered, &c.DeliveredNoAck, &c.Got, &c.GotNoAck, &c.GotEmpty, &c.Acked, &c.Redelivered)
	p.rates(&s.rates)
	p.uint((*uint64)(&x.Session))
	packPast(p, &s.past)
}

func packConsumer(p *pack, s *shipped[broker.Consumer]) {
	x := &s.thing
	p.text(&x.Tag)
	p.text(&x.Queue)
	p.text(&x.VHost)
	p.bool(&x.AckRequired)
	p.bool(&x.Exclusive)
	p.bool(&x.Active)
	p.int(&x.Prefetch)
	p.table(&x.Arguments)
	timeout := int(x.TimeoutMillis)
	p.int(&timeout)
	x.TimeoutMillis = int64(timeout)
	p.text(&x.Connection)
	p.int(&x.Number)
	p.text(&x.User)
	p.text(&x.PeerHost)
	p.int(&x.PeerPort)
	consumer := uint64(x.ID)
	p.uints((*uint64)(&x.Session), &consumer)
	x.ID = queue.ConsumerID(consumer)
}

// packStatus writes how a queue is at the node that leads it.
func packStatus(p *pack, st *quorum.QueueStatus) {
	state, leader := string(st.State), uint64(st.Leader)
	p.text(&state)
	p.text(&st.Reason)
	p.text(&st.PendingReason)
	p.uint(&leader)
	st.State, st.Leader = quorum.State(state), meta.NodeID(leader)
	p.nodes(&st.Members)
	p.nodes(&st.Online)
	p.uints(&st.Term, &st.Applied, &st.Checkpoint)
	p.int64(&st.BodyBytesInMemory)
	p.int64(&st.DiskBytes)
	p.int64(&st.NextDelayedMillis)
	c := &st.Counts
	p.uints(c.Numbers()...)
}

func packNode(p *pack, n *nodeSample) {
	r := &n.resources
	p.uints(&r.memoryBytes, &r.memoryHighBytes, &r.files, &r.filesMax, &r.diskFreeBytes, &r.goroutines, &r.gcRuns, &r.gcBytes, &r.switches)
	p.counters(&n.messages)
	p.counters(&n.churn)
	p.counters(&n.used)
	p.rates(&n.messageRates)
	p.rates(&n.churnRates)
	p.rates(&n.usageRates)
	p.uints(&n.uptimeMillis, &n.pid, &n.processors)
	p.text(&n.version)
	p.text(&n.dataDir)
	p.texts(&n.configFiles)
	packRows(p, &n.listeners, func(p *pack, l *Listener) {
		p.text(&l.Protocol)
		p.text(&l.IP)
		p.int(&l.Port)
		p.bool(&l.TLS)
	})
	p.uint(&r.diskLimitBytes)
}
