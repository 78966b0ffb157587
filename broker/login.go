package broker

import (
	"slices"

	"github.com/warrenmq/warren/amqp"
	"github.com/warrenmq/warren/meta"
)

// mechanisms lists what the client is offered: what is configured, EXTERNAL only if it showed a certificate.
func (c *conn) mechanisms() []string {
	if c.certificate != nil {
		return c.b.opt.Mechanisms
	}
	return slices.DeleteFunc(slices.Clone(c.b.opt.Mechanisms), func(name string) bool { return name == amqp.MechanismExternal })
}

// knownMechanisms are those that can be configured.
var knownMechanisms = []string{amqp.MechanismAMQPlain, amqp.MechanismAnonymous, amqp.MechanismExternal, amqp.MechanismPlain}

// login checks who the client is.
func (c *conn) login(m *amqp.ConnectionStartOk) error {
	if !slices.Contains(c.mechanisms(), m.Mechanism) {
		if slices.Contains(knownMechanisms, m.Mechanism) {
			return errMechanismNotOffered(m.Mechanism)
		}
		return errMechanism(m.Mechanism)
	}
	from := c.from()
	if !c.b.opt.Guesses.Wait(c.b.ending, from) {
		return errClosedEarly
	}
	name, user, problem, err := c.identify(m)
	if err != nil {
		return err
	}
	c.mechanism = m.Mechanism
	c.b.totals.authAttempts.Add(1)
	if problem == "" && c.b.onlyLocal(user.Name) && !isLoopback(c.ends.Load().peer) {
		problem = "the user can only connect via localhost"
	}
	if problem == "" {
		c.b.totals.authSucceeded.Add(1)
		c.user = user.Name
		c.tellLogin(c.user, "")
		return nil
	}
	c.b.totals.authFailed.Add(1)
	c.b.opt.Guesses.Failed(from)
	c.tellLogin(name, problem)
	c.b.log.Warn("login refused", "connection", c.name(), "user", name, "mechanism", m.Mechanism, "reason", problem)
	if c.authFailClose {
		return errLoginRefused(m.Mechanism)
	}
	c.discard(silentCloseDelay)
	return errClosedEarly
}

// identify finds the user that the client proves to be, or says what is wrong, for the log alone. The error is a response that cannot be read.
func (c *conn) identify(m *amqp.ConnectionStartOk) (name string, user *meta.User, problem string, err error) {
	var login amqp.Login
	switch m.Mechanism {
	case amqp.MechanismExternal:
		name, ok := c.b.opt.CertificateLogin.Name(c.certificate)
		if !ok {
			return "", nil, "the certificate has no name where ssl_cert_login_from says", nil
		}
		if user = c.b.host.Catalogue().View.User(name); user == nil {
			problem = "no such user"
		}
		return name, user, problem, nil
	case amqp.MechanismAnonymous:
		login = amqp.Login{User: c.b.opt.AnonymousUser, Password: c.b.opt.AnonymousPass}
	case amqp.MechanismPlain:
		login, err = amqp.ParsePlain(m.Response)
	default:
		login, err = amqp.ParseAMQPlain(m.Response)
	}
	if err == nil {
		user, problem = c.b.authenticate(login.User, login.Password)
	}
	return login.User, user, problem, err
}

// nobody's hash is compared where there is no user of the name, so that the time does not tell.
var nobody = meta.User{PasswordHash: meta.HashPassword([4]byte{1, 2, 3, 4}, []byte("nobody"))}

// authenticate returns the user if the password is right, else what is wrong.
func (b *Broker) authenticate(name, password string) (*meta.User, string) {
	user := b.host.Catalogue().View.User(name)
	if user == nil {
		meta.CheckPassword(nobody.HashingAlgorithm, nobody.PasswordHash, []byte(password))
		return nil, "no such user"
	}
	if !meta.CheckPassword(user.HashingAlgorithm, user.PasswordHash, []byte(password)) {
		return nil, "wrong password"
	}
	return user, ""
}

// onlyLocal tells whether a user may connect from this machine only.
func (b *Broker) onlyLocal(user string) bool { return slices.Contains(b.opt.LoopbackUsers, user) }
