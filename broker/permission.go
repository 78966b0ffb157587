package broker

import (
	"bytes"

	"github.com/warrenmq/warren/amqp"
	"github.com/warrenmq/warren/meta"
)

// accessCache remembers what the user of a channel was allowed, until somebody's permission changes. The catalogue changes much more often.
type accessCache struct {
	known   bool
	index   uint64 // View.AccessIndex
	rights  meta.Rights
	granted map[grant]bool
}

type grant struct {
	access meta.Access
	name   string
}

// grantsMax bounds an accessCache; a full one starts over.
const grantsMax = 64

// Authorise is the one judge of what a user may do with a queue or exchange, for AMQP as for the HTTP API: nil, or the refusal.
func Authorise(rights *meta.Rights, user string, access meta.Access, what Resource) *amqp.Error {
	what = permitted(what)
	if rights.Allows(access, what.Name) {
		return nil
	}
	return errRefused(access, what, user)
}

// AuthoriseTopic is the one judge of the routing keys that a user may publish with (Write) or bind with (Read). An exchange that is not there has no keys to refuse.
func AuthoriseTopic(rights *meta.Rights, user string, access meta.Access, x *meta.Exchange, key string) *amqp.Error {
	if x == nil {
		return nil
	}
	if pattern := rights.Topic(access, x); pattern != nil && !pattern.Allows(key) {
		return errTopicRefused(access, key, exchangeResource(x.VHost, x.Name), user)
	}
	return nil
}

// authoriseKeys judges all routing keys of a message.
func authoriseKeys(rights *meta.Rights, user string, x *meta.Exchange, key string, copies []string) *amqp.Error {
	if e := AuthoriseTopic(rights, user, meta.Write, x, key); e != nil {
		return e
	}
	for _, key := range copies {
		if e := AuthoriseTopic(rights, user, meta.Write, x, key); e != nil {
			return e
		}
	}
	return nil
}

// permitted is the resource by the name that permissions and texts know it by.
func permitted(what resource) resource {
	if what.Kind == "exchange" {
		what.Name = meta.PermissionName(what.Name)
	}
	return what
}

// may checks that the connection's user has access to a queue or exchange.
func (ch *channel) may(access meta.Access, what resource) error {
	what = permitted(what)
	a := &ch.access
	rights := a.current(ch.c)
	ok, known := a.granted[grant{access, what.Name}]
	if !known {
		ok = rights.Allows(access, what.Name)
		if a.granted == nil || len(a.granted) >= grantsMax {
			a.granted = make(map[grant]bool)
		}
		a.granted[grant{access, what.Name}] = ok
	}
	if ok {
		return nil
	}
	return errRefused(access, what, ch.c.user)
}

// mayTopic checks that the connection's user may use a routing key with an exchange, which may be missing.
func (ch *channel) mayTopic(access meta.Access, x *meta.Exchange, key string) error {
	if e := AuthoriseTopic(ch.access.current(ch.c), ch.c.user, access, x, key); e != nil {
		return e
	}
	return nil
}

// current returns what the user may do as the node knows it now.
func (a *accessCache) current(c *conn) *meta.Rights {
	v := c.b.host.Catalogue().View
	if index := v.AccessIndex(); !a.known || index != a.index {
		*a = accessCache{known: true, index: index, rights: v.Rights(c.user, c.vhost)}
	}
	return &a.rights
}

// topicGuard holds publishes to one exchange to the routing keys that the user may use.
type topicGuard struct {
	pattern *meta.Pattern // nil: any
	last    []byte        // the last key that was allowed
}

// allows tells whether a key may be used, from memory if it was the last one, too.
func (g *topicGuard) allows(key []byte) bool {
	if len(g.last) > 0 && bytes.Equal(key, g.last) {
		return true
	}
	if !g.pattern.AllowsBytes(key) {
		return false
	}
	g.last = append(g.last[:0], key...)
	return true
}

// mayPublish checks the routing keys of a message for an exchange of which not every key may be used.
func (ch *channel) mayPublish(exchangeName, key []byte, copies []string) error {
	g := &ch.publishTo.topic
	if !g.allows(key) {
		return errTopicRefused(meta.Write, string(key), exchangeResource(ch.c.vhost, string(exchangeName)), ch.c.user)
	}
	for _, key := range copies {
		if !g.pattern.Allows(key) {
			return errTopicRefused(meta.Write, key, exchangeResource(ch.c.vhost, string(exchangeName)), ch.c.user)
		}
	}
	return nil
}
