package management

import (
	"net/http"

	"github.com/warrenmq/warren/broker"
	"github.com/warrenmq/warren/meta"
)

// What a user may see and do: virtual hosts are seen by those who have a permission in them and by monitoring and administrator; changes need the permission that
// the same change over AMQP needs, of an administrator, too.

// sees tells whether the user may read about the virtual host.
func (c *call) sees(vhost string) bool {
	return isMonitor(c.user) || c.view.Permission(c.user.Name, vhost) != nil
}

// vhosts returns the virtual hosts that the user sees, in order of their names.
func (c *call) vhosts() []*meta.VHost {
	var list []*meta.VHost
	for h := range c.view.VHosts() {
		if c.sees(h.Name) {
			list = append(list, h)
		}
	}
	return list
}

// readVHost checks that a virtual host of the path exists and that the user sees it.
func (c *call) readVHost(name string) error {
	if c.view.VHost(name) == nil {
		return objectNotFound()
	}
	if !c.sees(name) {
		return notAuthorised("User not authorised to access virtual host")
	}
	return nil
}

// changeVHost is readVHost for changes in a virtual host; what exactly is allowed is checked by may.
func (c *call) changeVHost(name string) error {
	switch {
	case c.view.VHost(name) == nil && c.r.Method == http.MethodDelete:
		return objectNotFound()
	case c.view.VHost(name) == nil:
		return notFound("vhost_not_found")
	case c.view.Permission(c.user.Name, name) != nil:
		return nil
	case isAdministrator(c.user):
		return notAuthorised("Access refused.")
	}
	return notAuthorised("User not authorised to access virtual host")
}

// may checks a permission as AMQP does.
func (c *call) may(access meta.Access, what resource) error {
	rights := c.view.Rights(c.user.Name, what.VHost)
	if e := broker.Authorise(&rights, c.user.Name, access, what); e != nil {
		return refused(e)
	}
	return nil
}

// mayBindWith checks that the user may bind from the exchange with a routing key.
func (c *call) mayBindWith(vhost, exchange, key string) error {
	rights := c.view.Rights(c.user.Name, vhost)
	if e := broker.AuthoriseTopic(&rights, c.user.Name, meta.Read, c.view.Exchange(vhost, exchange), key); e != nil {
		return refused(e)
	}
	return nil
}

// mayTouch checks that the user may see or close a connection or channel: one's own, any as administrator, and reading any as monitoring.
func (c *call) mayTouch(owner string, change bool) error {
	if c.user.Name == owner || isAdministrator(c.user) || !change && isMonitor(c.user) {
		return nil
	}
	return notAuthorised("User not authorised to access object")
}
