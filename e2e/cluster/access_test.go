package cluster

import (
	"errors"
	"net/http"
	"net/url"
	"testing"
	"time"

	amqp "github.com/rabbitmq/amqp091-go"

	"github.com/warrenmq/warren/e2e/harness"
)

// revokedWithin is how long a right may outlive its end on any node.
const revokedWithin = time.Second

// TestAccessOnEveryNode changes rights and limits through one node and looks at what clients of the other one have of it: a consumer ends within a second, connections to both count, and the
// connections of a deleted user end.
func TestAccessOnEveryNode(t *testing.T) {
	c := harness.StartCluster(t, 2, harness.ClusterOptions{})
	one, two := c.Nodes[0], c.Nodes[1]
	put := func(body any, path ...string) {
		t.Helper()
		if answer := one.API(t, http.MethodPut, harness.Path(path...), body); answer.Status/100 != 2 {
			t.Fatalf("PUT %v: %d %s", path, answer.Status, answer.Body)
		}
	}
	dial := func(n *harness.Node) (*amqp.Connection, error) {
		u, err := url.Parse(n.AMQPURL())
		if err != nil {
			t.Fatal(err)
		}
		u.User = url.UserPassword("shop", "secret")
		conn, err := amqp.Dial(u.String())
		if err == nil {
			t.Cleanup(func() { _ = conn.Close() })
		}
		return conn, err
	}
	rights := map[string]string{"configure": "", "write": "", "read": "^q$"}
	put(map[string]string{"password": "secret", "tags": ""}, "users", "shop")
	put(rights, "permissions", "/", "shop")
	put(map[string]int{"value": 2}, "user-limits", "shop", "max-connections")
	declareReplicated(t, one.Channel(t), "q", harness.Quorum)

	conn, err := dial(two)
	if err != nil {
		t.Fatal(err)
	}
	if _, err := dial(one); err != nil {
		t.Fatal(err)
	}
	harness.Eventually(t, revokedWithin, func() error { // both nodes have told each other
		third, err := dial(two)
		var closed *amqp.Error
		if errors.As(err, &closed) && closed.Reason == "NOT_ALLOWED - connection refused for user 'shop': user connection limit (2) is reached" {
			return nil
		}
		if third != nil {
			_ = third.Close()
		}
		return errors.Join(errors.New("a third connection was let in"), err)
	})

	cancelledBy(t, conn, func() {
		rights["read"] = ""
		put(rights, "permissions", "/", "shop")
	})
	ended := conn.NotifyClose(make(chan *amqp.Error, 1))
	if answer := one.API(t, http.MethodDelete, harness.Path("users", "shop"), nil); answer.Status != http.StatusNoContent {
		t.Fatalf("DELETE: %d", answer.Status)
	}
	select {
	case reason := <-ended:
		if reason == nil || reason.Code != amqp.ConnectionForced {
			t.Errorf("closed with %v", reason)
		}
	case <-time.After(revokedWithin):
		t.Error("the connection of a deleted user on the other node stays")
	}
}

// cancelledBy starts a consumer of q and has it cancelled by what revoke does.
func cancelledBy(t *testing.T, conn *amqp.Connection, revoke func()) {
	t.Helper()
	ch := harness.Channel(t, conn)
	cancelled := ch.NotifyCancel(make(chan string, 1))
	if _, err := ch.Consume("q", "consumer", true, false, false, false, nil); err != nil {
		t.Fatal(err)
	}
	revoke()
	select {
	case tag := <-cancelled:
		if tag != "consumer" {
			t.Errorf("cancelled %q", tag)
		}
	case <-time.After(revokedWithin):
		t.Error("the consumer on the other node goes on")
	}
}
