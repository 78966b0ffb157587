package management

import (
	"net/http"

	"github.com/warrenmq/warren/broker"
	"github.com/warrenmq/warren/meta"
)

// The counters of an exchange's series.
const (
	exchangeIn = iota
	exchangeOut
)

func exchangeKey(vhost, name string) string { return vhost + "\x00" + name }

// exchangeName is the name in a path: the default exchange has an empty name, which no path can have.
func exchangeName(text string) string {
	if text == "amq.default" {
		return ""
	}
	return text
}

// exchangeCount are the messages into an exchange and the copies out of it, at one node or all, and those that wait in it where its relay is led.
type exchangeCount struct {
	vhost, name      string
	in, out, delayed uint64
	rates            *rates
}

func packExchange(p *pack, x *exchangeCount) {
	p.text(&x.vhost)
	p.text(&x.name)
	p.uints(&x.in, &x.out, &x.delayed)
	p.rates(&x.rates)
}

// add adds what another node counts.
func (x *exchangeCount) add(more *exchangeCount) {
	x.in += more.in
	x.out += more.out
	x.delayed += more.delayed
	if more.rates != nil {
		sum := new(rates)
		sum.add(x.rates)
		sum.add(more.rates)
		x.rates = sum
	}
}

// ownExchanges lists the exchanges through which messages of this node's clients went, and those of which some wait in a relay that this node led at the last tick.
func (s *Server) ownExchanges() []exchangeCount {
	view, waiting := s.opt.Host.Catalogue().View, s.sampler.snapshot().relays
	var list []exchangeCount
	s.sampler.look(&s.sampler.exchanges, func(things map[string]*sampledThing) {
		for h := range view.VHosts() {
			for x := range view.Exchanges(h.Name) {
				n := exchangeCount{vhost: h.Name, name: x.Name}
				if n.in, n.out = s.opt.Broker.ExchangeCounts(h.Name, x.Name); len(waiting) > 0 && x.HasRelay() {
					if q := view.Relay(h.Name, x.Name); q != nil {
						n.delayed = waiting[q.ID].Counts.Delayed
					}
				}
				if n.in > 0 || n.out > 0 || n.delayed > 0 {
					n.rates = things[exchangeKey(h.Name, x.Name)].rates()
					list = append(list, n)
				}
			}
		}
	})
	return list
}

// ownExchangePast are the samples of an exchange at this node.
func (s *Server) ownExchangePast(q *question) (list []pastSample) {
	s.sampler.look(&s.sampler.exchanges, func(things map[string]*sampledThing) { list = things[exchangeKey(q.vhost, q.queue)].samples(q.span) })
	return list
}

// exchangePast sums up the samples of an exchange over all nodes.
func (c *call) exchangePast(x *meta.Exchange) []pastSample {
	q := question{kind: askExchange, vhost: x.VHost, queue: x.Name, span: c.spans.messages}
	sum := c.s.ownExchangePast(&q)
	replies, _ := c.s.peers.askAll(c.r.Context(), q)
	for _, r := range replies {
		var more []pastSample
		in := unpack(r.body)
		if packPast(in, &more); in.in.Err() != nil {
			continue
		}
		i := 0
		for k := range sum { // the other's at that time, or the last one before
			for i < len(more) && more[i].at > sum[k].at {
				i++
			}
			if i == len(more) {
				break
			}
			for j := range sum[k].counters {
				sum[k].counters[j] += more[i].counters[j]
			}
		}
	}
	return sum
}

// exchangeCounts sums up over all nodes.
func (s *Server) exchangeCounts() map[string]*exchangeCount {
	of := make(map[string]*exchangeCount)
	add := func(list []exchangeCount) {
		for i := range list {
			key := exchangeKey(list[i].vhost, list[i].name)
			if of[key] == nil {
				of[key] = new(exchangeCount)
			}
			of[key].add(&list[i])
		}
	}
	add(s.ownExchanges())
	for _, n := range s.peers.exchanges.rows(s.peers) {
		add(n.rows)
	}
	return of
}

func (c *call) listExchanges(vhosts ...string) error {
	var rows []*meta.Exchange
	for _, vhost := range vhosts {
		for x := range c.view.Exchanges(vhost) {
			rows = append(rows, x)
		}
	}
	return list(c, rows, func(x *meta.Exchange) string { return x.Name }, c.exchangeWriter())
}

// listExchanges is GET /exchanges.
func listExchanges(c *call) error { return c.listExchanges(c.vhostNames()...) }

func (c *call) vhostNames() []string {
	var names []string
	for _, h := range c.vhosts() {
		names = append(names, h.Name)
	}
	return names
}

// listVHostExchanges is GET /exchanges/VHOST.
func listVHostExchanges(c *call) error {
	if err := c.readVHost(c.params[0]); err != nil {
		return err
	}
	return c.listExchanges(c.params[0])
}

// getExchange is GET /exchanges/VHOST/NAME.
func getExchange(c *call) error {
	if err := c.readVHost(c.params[0]); err != nil {
		return err
	}
	x := c.view.Exchange(c.params[0], exchangeName(c.params[1]))
	if x == nil {
		return objectNotFound()
	}
	n := c.s.exchangeCounts()[exchangeKey(x.VHost, x.Name)]
	if n == nil {
		n = new(exchangeCount)
	}
	if x.Delays() {
		n.delayed = c.messagesDelayed(x)
	}
	return c.object(http.StatusOK, func(w *writer) {
		c.writeExchange(w, x, n, c.spans.messages)
		w.EmptyArray("incoming")
		w.EmptyArray("outgoing")
	})
}

// putExchange is PUT /exchanges/VHOST/NAME.
func putExchange(c *call) error {
	vhost, name := c.params[0], exchangeName(c.params[1])
	if err := c.changeVHost(vhost); err != nil {
		return err
	}
	x := meta.Exchange{VHost: vhost, Name: name}
	b, err := c.readBody()
	if err != nil {
		return err
	}
	if x.Type, err = b.text("type", "direct"); err != nil {
		return err
	}
	if x.Durable, err = b.bool("durable", false); err != nil {
		return err
	}
	if x.AutoDelete, err = b.bool("auto_delete", false); err != nil {
		return err
	}
	if x.Internal, err = b.bool("internal", false); err != nil {
		return err
	}
	arguments, err := b.table("arguments")
	if err != nil {
		return err
	}
	x.Arguments = meta.NewArguments(arguments)
	what := exchangeResource(vhost, name)
	if err := c.may(meta.Configure, what); err != nil {
		return err
	}
	if c.view.Exchange(vhost, name) == nil {
		if meta.ReservedName(name) {
			return refusal(&meta.Reply{Reason: meta.ReasonReservedName}, what)
		}
		if err := c.mayAlternate(&x, what); err != nil {
			return err
		}
	}
	reply, err := c.do(what, broker.ExchangeCommands(c.s.opt.Host, &x)...)
	if err != nil {
		return err
	}
	return c.made(reply.Existed)
}

// mayAlternate checks what an alternate exchange asks for: to read the exchange and to write to the other one.
func (c *call) mayAlternate(x *meta.Exchange, what resource) error {
	v, ok := x.Arguments.Get("alternate-exchange")
	if !ok {
		return nil
	}
	if err := c.may(meta.Read, what); err != nil {
		return err
	}
	name, _ := v.AsString()
	return c.may(meta.Write, exchangeResource(x.VHost, name))
}

// deleteExchange is DELETE /exchanges/VHOST/NAME with the condition if-unused.
func deleteExchange(c *call) error {
	vhost, name := c.params[0], exchangeName(c.params[1])
	if err := c.changeVHost(vhost); err != nil {
		return err
	}
	what := exchangeResource(vhost, name)
	if c.view.Exchange(vhost, name) == nil {
		return objectNotFound()
	}
	if err := c.may(meta.Configure, what); err != nil {
		return err
	}
	reply, err := c.do(what, meta.Command{Op: meta.OpDeleteExchange, Exchange: meta.Exchange{VHost: vhost, Name: name}, IfUnused: c.flag("if-unused")})
	if err != nil {
		return err
	}
	if !reply.Existed {
		return objectNotFound()
	}
	return c.empty(http.StatusNoContent)
}

// exchangeWriter returns what writes exchanges with the counts as they are now.
func (c *call) exchangeWriter() func(*writer, *meta.Exchange) {
	counts := c.s.exchangeCounts()
	return func(w *writer, x *meta.Exchange) { c.writeExchange(w, x, counts[exchangeKey(x.VHost, x.Name)], span{}) }
}

// messagesDelayed counts what waits in the relay of an exchange at this moment.
func (c *call) messagesDelayed(x *meta.Exchange) uint64 {
	q := c.view.Relay(x.VHost, x.Name)
	if q == nil {
		return 0
	}
	st, _ := c.s.exactStatus(c.r.Context(), q)
	return st.Counts.Delayed
}

func (c *call) writeExchange(w *writer, x *meta.Exchange, n *exchangeCount, s span) {
	w.Str("name", x.Name)
	w.Str("vhost", x.VHost)
	w.Str("type", x.Type)
	w.Bool("durable", x.Durable)
	w.Bool("auto_delete", x.AutoDelete)
	w.Bool("internal", x.Internal)
	writeArguments(w, x.Arguments)
	if n == nil {
		n = new(exchangeCount)
	}
	if x.Delays() {
		w.Uint("messages_delayed", n.delayed)
	}
	writeName(w, "policy", x.Policies.Policy)
	w.Str("user_who_performed_action", "")
	if w.Object("message_stats") {
		t := trendOf(n.rates, s, func() []pastSample { return c.exchangePast(x) })
		w.Counter("publish_in", n.in, t, exchangeIn)
		w.Counter("publish_out", n.out, t, exchangeOut)
		w.End()
	}
}

// writeArguments writes arguments, which are decoded only if they are wanted.
func writeArguments(w *writer, a meta.Arguments) {
	if w.want("arguments") {
		w.Table("arguments", a.Table())
	}
}
