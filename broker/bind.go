package broker

import (
	"context"

	"github.com/warrenmq/warren/amqp"
	"github.com/warrenmq/warren/meta"
)

// ExchangeDeclare makes an exchange, or with passive looks whether it is there.
func (ch *channel) ExchangeDeclare(m amqp.ExchangeDeclare) error {
	m.Exchange = plainName(m.Exchange)
	what := exchangeResource(ch.c.vhost, m.Exchange)
	if m.Passive {
		if m.Exchange == "" {
			return errDefaultExchange()
		}
		if err := ch.mayAny(what); err != nil {
			return err
		}
		if ch.findExchange(m.Exchange) == nil {
			return errNotFound(what)
		}
		ch.replyUnless(m.NoWait, &amqp.ExchangeDeclareOk{})
		return nil
	}
	cmd := meta.Command{Op: meta.OpDeclareExchange, Exchange: meta.Exchange{
		VHost: ch.c.vhost, Name: m.Exchange, Type: m.Type, Durable: m.Durable, AutoDelete: m.AutoDelete, Internal: m.Internal,
		Arguments: meta.NewArguments(m.Arguments),
	}}
	r := ch.view().Check(&cmd)
	if r.Reason != meta.ReasonUnknownExchangeType && r.Reason != meta.ReasonDefaultExchange {
		if err := ch.may(meta.Configure, what); err != nil {
			return err
		}
	}
	switch {
	case meta.ReservedName(m.Exchange) && ch.view().Exchange(ch.c.vhost, m.Exchange) == nil:
		return errReserved(what)
	case r.Reason != meta.ReasonOK:
		return errReason(&r, what)
	case r.Existed && ch.hasHidden(m.Exchange):
		ch.replyUnless(m.NoWait, &amqp.ExchangeDeclareOk{})
		return nil
	}
	if v, ok := cmd.Exchange.Arguments.Get("alternate-exchange"); ok {
		if err := ch.may(meta.Read, what); err != nil {
			return err
		}
		name, _ := v.AsString()
		if err := ch.may(meta.Write, exchangeResource(ch.c.vhost, name)); err != nil {
			return err
		}
	}
	ch.proposeAll(ExchangeCommands(ch.c.b.host, &cmd.Exchange), what, func(context.Context, *meta.Reply) error {
		ch.replyUnless(m.NoWait, &amqp.ExchangeDeclareOk{})
		return nil
	})
	return nil
}

// hasHidden tells whether an exchange has the queues that belong to it: its type asks for them, and they are made behind it.
func (ch *channel) hasHidden(name string) bool {
	v, vhost := ch.view(), ch.c.vhost
	x := v.Exchange(vhost, name)
	return x != nil && (x.RoutingType() != meta.TypeRecentHistory || v.History(vhost, name) != nil) && (!x.HasRelay() || v.Relay(vhost, name) != nil)
}

// ExchangeDelete deletes an exchange. One that is not there is no error.
func (ch *channel) ExchangeDelete(m amqp.ExchangeDelete) error {
	m.Exchange = plainName(m.Exchange)
	what := exchangeResource(ch.c.vhost, m.Exchange)
	cmd := meta.Command{Op: meta.OpDeleteExchange, Exchange: meta.Exchange{VHost: ch.c.vhost, Name: m.Exchange}, IfUnused: m.IfUnused}
	if r := ch.view().Check(&cmd); r.Reason != meta.ReasonOK {
		return errReason(&r, what)
	}
	if err := ch.may(meta.Configure, what); err != nil {
		return err
	}
	if ch.findExchange(m.Exchange) == nil {
		ch.replyUnless(m.NoWait, &amqp.ExchangeDeleteOk{})
		return nil
	}
	ch.propose(cmd, what, func(*meta.Reply) error {
		ch.replyUnless(m.NoWait, &amqp.ExchangeDeleteOk{})
		return nil
	})
	return nil
}

// QueueBind binds a queue. With neither queue nor key both are the name of the last queue declared.
func (ch *channel) QueueBind(m amqp.QueueBind) error {
	name, err := ch.queueName(m.Queue)
	if err != nil {
		return err
	}
	if m.Queue == "" && m.RoutingKey == "" {
		m.RoutingKey = name
	}
	if isReplyName(name) {
		return errReplyBinding()
	}
	b := meta.Binding{VHost: ch.c.vhost, Source: plainName(m.Exchange), Kind: meta.ToQueue, Destination: name, RoutingKey: m.RoutingKey, Arguments: meta.NewArguments(m.Arguments)}
	return ch.changeBinding(meta.OpBind, &b, m.NoWait, &amqp.QueueBindOk{})
}

// QueueUnbind unbinds a queue.
func (ch *channel) QueueUnbind(m amqp.QueueUnbind) error {
	name, err := ch.queueName(m.Queue)
	if err != nil {
		return err
	}
	if m.Queue == "" && m.RoutingKey == "" {
		m.RoutingKey = name
	}
	if isReplyName(name) {
		return errReplyBinding()
	}
	b := meta.Binding{VHost: ch.c.vhost, Source: plainName(m.Exchange), Kind: meta.ToQueue, Destination: name, RoutingKey: m.RoutingKey, Arguments: meta.NewArguments(m.Arguments)}
	return ch.changeBinding(meta.OpUnbind, &b, false, &amqp.QueueUnbindOk{})
}

// ExchangeBind binds an exchange to another one.
func (ch *channel) ExchangeBind(m amqp.ExchangeBind) error {
	b := meta.Binding{VHost: ch.c.vhost, Source: plainName(m.Source), Kind: meta.ToExchange, Destination: plainName(m.Destination), RoutingKey: m.RoutingKey, Arguments: meta.NewArguments(m.Arguments)}
	return ch.changeBinding(meta.OpBind, &b, m.NoWait, &amqp.ExchangeBindOk{})
}

// ExchangeUnbind unbinds an exchange from another one.
func (ch *channel) ExchangeUnbind(m amqp.ExchangeUnbind) error {
	b := meta.Binding{VHost: ch.c.vhost, Source: plainName(m.Source), Kind: meta.ToExchange, Destination: plainName(m.Destination), RoutingKey: m.RoutingKey, Arguments: meta.NewArguments(m.Arguments)}
	return ch.changeBinding(meta.OpUnbind, &b, m.NoWait, &amqp.ExchangeUnbindOk{})
}

// changeBinding makes or removes a binding: to write the destination and to read the source is asked for. Removing what is not there is no error.
func (ch *channel) changeBinding(op meta.Op, b *meta.Binding, noWait bool, ok amqp.Method) error {
	destination := queueResource(b.VHost, b.Destination)
	if b.Kind == meta.ToExchange {
		destination.Kind = "exchange"
	}
	if err := ch.may(meta.Write, destination); err != nil {
		return err
	}
	if b.Source == "" || b.Kind == meta.ToExchange && b.Destination == "" {
		return errDefaultExchange()
	}
	if err := ch.may(meta.Read, exchangeResource(b.VHost, b.Source)); err != nil {
		return err
	}
	if err := ch.mayTopic(meta.Read, ch.view().Exchange(b.VHost, b.Source), b.RoutingKey); err != nil {
		return err
	}
	cmd := meta.Command{Op: op, Binding: *b}
	r := ch.view().Check(&cmd)
	missing := op == meta.OpUnbind && !ch.view().HasBinding(b)
	if (r.Reason != meta.ReasonOK || missing) && ch.awaitsLease() { // as findQueue
		r, missing = ch.view().Check(&cmd), op == meta.OpUnbind && !ch.view().HasBinding(b)
	}
	if r.Reason != meta.ReasonOK {
		return errReason(&r, destination)
	}
	if b.Kind == meta.ToQueue && !missing {
		if q := ch.view().Queue(b.VHost, b.Destination); q != nil && q.LockedFor(ch.c.owner) {
			return errLocked(destination)
		}
	}
	if r.Existed || missing {
		ch.replyUnless(noWait, ok)
		return nil
	}
	ch.proposeAll([]meta.Command{cmd}, destination, func(ctx context.Context, r *meta.Reply) error {
		if op == meta.OpBind && !r.Existed {
			ch.c.b.recalled(ctx, b)
		}
		ch.replyUnless(noWait, ok)
		return nil
	})
	return nil
}
