package exit

import (
	"context"
	"errors"
	"fmt"
	"io"
	"net"
	"os"
	"strings"
	"testing"

	amqp "github.com/rabbitmq/amqp091-go"
)

func reply(code int, text string) error { return &amqp.Error{Code: code, Reason: text, Server: true} }

func TestCodes(t *testing.T) {
	refused := &net.OpError{Op: "dial", Err: &os.SyscallError{Syscall: "connect", Err: errors.New("refused")}}
	for _, c := range []struct {
		name string
		err  error
		want Code
	}{
		{"nothing", nil, OK},
		{"own error", Errorf(Config, "x"), Config},
		{"own error, wrapped", fmt.Errorf("a: %w", Errorf(Denied, "x")), Denied},
		{"refused connection", refused, Unavailable},
		{"lost connection", io.ErrUnexpectedEOF, Unavailable},
		{"deadline", os.ErrDeadlineExceeded, Timeout},
		{"context time-out", fmt.Errorf("a: %w", context.DeadlineExceeded), Timeout},
		{"interrupt", context.Canceled, Interrupted},
		{"no such queue", reply(404, "NOT_FOUND - no queue 'q' in vhost '/'"), Data},
		{"other arguments", reply(406, "PRECONDITION_FAILED - inequivalent arg"), Data},
		{"wrong password", reply(403, "ACCESS_REFUSED - Login was refused using authentication mechanism PLAIN."), Auth},
		{"no permission", reply(403, "ACCESS_REFUSED - read access to queue 'q' in vhost '/' refused for user 'u'"), Denied},
		{"locked queue", reply(405, "RESOURCE_LOCKED - cannot obtain exclusive access"), Unavailable},
		{"no such vhost", reply(530, "NOT_ALLOWED - vhost v not found"), Data},
		{"no access to the vhost", reply(530, "NOT_ALLOWED - access to vhost 'v' refused for user 'u'"), Denied},
		{"too many connections", reply(530, "NOT_ALLOWED - access to vhost 'v' refused for user 'u': connection limit (1) is reached"), Unavailable},
		{"forced", reply(320, "CONNECTION_FORCED - shutdown"), Unavailable},
		{"too large", reply(311, "CONTENT_TOO_LARGE"), Data},
		{"protocol error", reply(501, "FRAME_ERROR"), Internal},
		{"not implemented", reply(540, "NOT_IMPLEMENTED"), Internal},
		{"anything else", errors.New("x"), Internal},
	} {
		if got := Of(c.err); got != c.want {
			t.Errorf("%s: %d, want %d", c.name, got, c.want)
		}
	}
}

func TestRowsAreAllCodesInOrder(t *testing.T) {
	want := []Code{0, 3, 64, 65, 67, 69, 70, 75, 77, 78, 130}
	rows := Rows()
	if len(rows) != len(want) {
		t.Fatalf("%d rows, want %d", len(rows), len(want))
	}
	for i, row := range rows {
		if row.Code != want[i] || row.Meaning == "" {
			t.Errorf("row %d is %+v, want code %d", i, row, want[i])
		}
	}
}

func TestTextIsOneLineWithTheReason(t *testing.T) {
	err := Wrap(reply(404, "NOT_FOUND - no queue 'q'\nin vhost '/'"), "queue %q", "q")
	if got, want := Text(err), `queue "q": 404 NOT_FOUND - no queue 'q' in vhost '/'`; got != want {
		t.Errorf("got %q, want %q", got, want)
	}
	if Of(err) != Data {
		t.Errorf("the code became %d", Of(err))
	}
	if Wrap(nil, "x") != nil || Text(nil) != "" {
		t.Error("nothing must stay nothing")
	}
	cause := errors.New("cause")
	if err := Errorf(Data, "a: %w", cause); !errors.Is(err, cause) || !strings.HasSuffix(err.Text, "a: cause") {
		t.Errorf("cause lost: %v", err)
	}
}
