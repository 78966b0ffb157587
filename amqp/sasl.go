package amqp

import "strings"

// Names of the SASL mechanisms. The responses of the first two say who the client is, and this package reads them; those of the others say nothing.
const (
	MechanismPlain     = "PLAIN"
	MechanismAMQPlain  = "AMQPLAIN"
	MechanismExternal  = "EXTERNAL"
	MechanismAnonymous = "ANONYMOUS"
)

// Login is what a client shows to be let in.
type Login struct {
	// User is the name.
	User string
	// Password is the password; it never goes into a text.
	Password string
}

// ParsePlain reads a PLAIN response: NUL, user, NUL, password. RabbitMQ takes no authorization identity before the first NUL and no NUL inside
// the password, nor does this. Anything else is 502, whose text does not repeat the response.
func ParsePlain(response string) (Login, error) {
	if rest, ok := strings.CutPrefix(response, "\x00"); ok {
		user, password, ok := strings.Cut(rest, "\x00")
		if ok && !strings.Contains(password, "\x00") {
			return Login{User: user, Password: password}, nil
		}
	}
	return Login{}, Errorf(ReplySyntaxError, "response of %d bytes invalid", len(response))
}

// ParseAMQPlain reads an AMQPLAIN response: a field table without its length, with the long strings LOGIN and PASSWORD. Anything else is 502.
func ParseAMQPlain(response string) (Login, error) {
	t, err := DecodeTable([]byte(response))
	if err != nil {
		return Login{}, err
	}
	user, hasUser := t.Get("LOGIN")
	password, hasPassword := t.Get("PASSWORD")
	if !hasUser || !hasPassword {
		return Login{}, Errorf(ReplySyntaxError, "AMQPLAIN auth info is missing LOGIN or PASSWORD field")
	}
	login := Login{}
	var isUser, isPassword bool
	login.User, isUser = user.AsString()
	login.Password, isPassword = password.AsString()
	if !isUser || !isPassword {
		return Login{}, Errorf(ReplySyntaxError, "AMQPLAIN auth info uses unsupported type for LOGIN or PASSWORD field")
	}
	return login, nil
}
