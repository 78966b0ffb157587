package broker

import (
	"github.com/warrenmq/warren/amqp"
	"github.com/warrenmq/warren/meta"
	"github.com/warrenmq/warren/queue"
)

// Rights are asked for with every method, so that one which is taken away is refused from then on. What was begun with it goes on without a method: consumers, and connections themselves. They
// end here, when the catalogue tells of the change.

// changed follows the catalogue: connections whose virtual host or user is gone are closed, consumers whose user may not read their queue any more are cancelled.
func (b *Broker) changed(effects []meta.Effect) {
	b.tellChanges(effects)
	var touched map[[2]string]bool // user and virtual host
	for i := range effects {
		switch e := &effects[i]; e.Kind {
		case meta.VHostDeleted:
			b.closeAll("vhost '"+e.VHost+"' is deleted", func(c *conn) bool { return c.vhost == e.VHost })
		case meta.UserDeleted:
			b.closeAll("user '"+e.User+"' is deleted", func(c *conn) bool { return c.user == e.User })
		case meta.PermissionChanged:
			if touched == nil {
				touched = make(map[[2]string]bool)
			}
			touched[[2]string{e.User, e.VHost}] = true
		case meta.ExchangeDeleted:
			b.rates.forget(e.Exchange.VHost, e.Exchange.Name)
		}
	}
	if touched == nil {
		return
	}
	for _, c := range b.connections() {
		if c.isOpen() && touched[[2]string{c.user, c.vhost}] {
			c.reauthorise()
		}
	}
}

// reauthorise cancels the consumers of queues that the user may not read any more.
func (c *conn) reauthorise() {
	defer c.guard()
	rights := c.b.host.Catalogue().View.Rights(c.user, c.vhost)
	for _, ch := range c.channelList() {
		ch.reauthorise(&rights)
	}
}

func (ch *channel) reauthorise(rights *meta.Rights) {
	var doomed []*consumer
	ch.mu.Lock()
	for _, cons := range ch.consumers {
		if !cons.revoked && ch.mayNotRead(rights, cons) != nil {
			cons.revoked = true
			if cons.active { // else when the queue has answered that it is
				doomed = append(doomed, cons)
			}
		}
	}
	ch.mu.Unlock()
	ch.revoke(doomed...)
}

// revoke has queues cancel consumers. A consumer ends when its queue has answered: what was on the way until then reaches the client, who can still settle it.
func (ch *channel) revoke(doomed ...*consumer) {
	for _, cons := range doomed {
		cmd := queue.Command{Op: queue.OpCancel, Consumer: cons.id}
		_ = ch.session.Submit(cons.src.queue.ID, &cmd, tokenRevoke|uint64(cons.id)) // a queue that is gone cancels its consumers itself
	}
	if len(doomed) > 0 {
		ch.session.Flush()
	}
}

func (ch *channel) mayNotRead(rights *meta.Rights, cons *consumer) *amqp.Error {
	return Authorise(rights, ch.c.user, meta.Read, queueResource(cons.src.queue.VHost, cons.src.queue.Name))
}

// revoked ends a consumer that the queue has cancelled for want of permission. A client that cannot take a basic.cancel loses the channel: it would wait for ever. Called with ch.mu held.
func (ch *channel) revoked(id queue.ConsumerID) *amqp.Error {
	cons := ch.consumer(id)
	if cons == nil {
		return nil
	}
	ch.cancelled(cons)
	if ch.c.cancelNotify {
		return nil
	}
	return errRefused(meta.Read, queueResource(cons.src.queue.VHost, cons.src.queue.Name), ch.c.user).At(amqp.MethodBasicConsume)
}

// updateSecret takes a new secret for the user of the connection. Users of the catalogue have rights that do not depend on it, so as in RabbitMQ it is not compared with the password; what the user
// may do is judged anew.
func (c *conn) updateSecret(m *amqp.ConnectionUpdateSecret) {
	if c.b.host.Catalogue().View.User(c.user) == nil {
		c.fail(errSecretRefused().At(m.ID()))
		return
	}
	c.reauthorise()
	c.b.log.Info("a client updated its secret", "connection", c.name(), "user", c.user, "reason", m.Reason)
	c.send(0, &amqp.ConnectionUpdateSecretOk{})
}
