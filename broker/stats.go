package broker

import (
	"sync"
	"sync/atomic"
)

// Totals are what the broker has done since it started. They never go back.
type Totals struct {
	// Published counts messages of clients and of Publish, Routed their copies to queues. ToConfirm are those of channels in confirm mode, Confirmed those that
	// a client was told about by ack or nack.
	Published, Routed, ToConfirm, Confirmed uint64
	// Returned and Dropped are unroutable messages: mandatory ones and others.
	Returned, Dropped uint64
	// Delivered and DeliveredNoAck count what consumers were sent, Got and GotNoAck what basic.get brought, GotEmpty the ones that found nothing.
	Delivered, DeliveredNoAck, Got, GotNoAck, GotEmpty uint64
	// Acked counts acknowledgements of clients, Redelivered deliveries that were not the first.
	Acked, Redelivered uint64
	// Connections, channels, queues: what was opened, closed, declared, created, deleted by clients.
	ConnectionsOpened, ConnectionsClosed, ChannelsOpened, ChannelsClosed, QueuesDeclared, QueuesCreated, QueuesDeleted uint64
	// Logins.
	AuthAttempts, AuthSucceeded, AuthFailed uint64
	// NoticesDropped counts events and traced messages that came faster than they could be published.
	NoticesDropped uint64
}

// totals are the counters behind Totals. On the path of a message they are added to per batch, not per message.
type totals struct {
	published, routed, toConfirm, confirmed, returned, dropped                                                         atomic.Uint64
	delivered, deliveredNoAck, got, gotNoAck, gotEmpty, acked, redelivered                                             atomic.Uint64
	connectionsOpened, connectionsClosed, channelsOpened, channelsClosed, queuesDeclared, queuesCreated, queuesDeleted atomic.Uint64
	authAttempts, authSucceeded, authFailed                                                                            atomic.Uint64
}

// deliveredSince adds what a channel delivered between two readings of its counters.
func (t *totals) deliveredSince(before, after *channelStats) {
	addTo(&t.delivered, after.delivered-before.delivered)
	addTo(&t.deliveredNoAck, after.deliveredNoAck-before.deliveredNoAck)
	addTo(&t.redelivered, after.redelivered-before.redelivered)
}

func addTo(c *atomic.Uint64, n uint64) {
	if n > 0 {
		c.Add(n)
	}
}

// Totals returns the present counts.
func (b *Broker) Totals() Totals {
	t := &b.totals
	return Totals{
		Published: t.published.Load(), Routed: t.routed.Load(), ToConfirm: t.toConfirm.Load(), Confirmed: t.confirmed.Load(), Returned: t.returned.Load(), Dropped: t.dropped.Load(),
		Delivered: t.delivered.Load(), DeliveredNoAck: t.deliveredNoAck.Load(), Got: t.got.Load(), GotNoAck: t.gotNoAck.Load(), GotEmpty: t.gotEmpty.Load(),
		Acked: t.acked.Load(), Redelivered: t.redelivered.Load(),
		ConnectionsOpened: t.connectionsOpened.Load(), ConnectionsClosed: t.connectionsClosed.Load(),
		ChannelsOpened: t.channelsOpened.Load(), ChannelsClosed: t.channelsClosed.Load(),
		QueuesDeclared: t.queuesDeclared.Load(), QueuesCreated: t.queuesCreated.Load(), QueuesDeleted: t.queuesDeleted.Load(),
		AuthAttempts: t.authAttempts.Load(), AuthSucceeded: t.authSucceeded.Load(), AuthFailed: t.authFailed.Load(),
		NoticesDropped: b.notices.dropped.Load(),
	}
}

// channelStats are the counters of one channel, guarded by its lock.
type channelStats struct {
	published, confirmed, returned, dropped                                uint64
	delivered, deliveredNoAck, got, gotNoAck, gotEmpty, acked, redelivered uint64
}

// exchangeRates count the publishes of exchanges.
type exchangeRates struct {
	mu sync.Mutex
	of map[exchangeKey]*exchangeRate
}

type exchangeKey struct{ vhost, name string }

// exchangeRate counts messages into an exchange and copies out of it to queues.
type exchangeRate struct{ in, out atomic.Uint64 }

// at returns the counters of an exchange that exists, making them.
func (r *exchangeRates) at(vhost, name string) *exchangeRate {
	r.mu.Lock()
	defer r.mu.Unlock()
	key := exchangeKey{vhost, name}
	x := r.of[key]
	if x == nil {
		if r.of == nil {
			r.of = make(map[exchangeKey]*exchangeRate)
		}
		x = new(exchangeRate)
		r.of[key] = x
	}
	return x
}

func (r *exchangeRates) forget(vhost, name string) {
	r.mu.Lock()
	delete(r.of, exchangeKey{vhost, name})
	r.mu.Unlock()
}

// ExchangeCounts returns how many messages clients have published to an exchange since it was made, and how many copies of them went to queues.
func (b *Broker) ExchangeCounts(vhost, name string) (in, out uint64) {
	b.rates.mu.Lock()
	defer b.rates.mu.Unlock()
	if x := b.rates.of[exchangeKey{vhost, name}]; x != nil {
		return x.in.Load(), x.out.Load()
	}
	return 0, 0
}
