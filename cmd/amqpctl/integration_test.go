package main

import (
	"bytes"
	"fmt"
	"math/rand/v2"
	"net/url"
	"os"
	"strings"
	"testing"

	"github.com/warrenmq/warren/cmd/amqpctl/internal/exit"
)

// TestAgainstBroker runs every command against a real broker, when WARREN_TEST_AMQP_URL and WARREN_TEST_HTTP_URL name one. What the commands
// print is compared as far as it does not depend on the broker.
func TestAgainstBroker(t *testing.T) {
	amqpURL, httpURL := os.Getenv("WARREN_TEST_AMQP_URL"), os.Getenv("WARREN_TEST_HTTP_URL")
	if amqpURL == "" || httpURL == "" {
		t.Skip("WARREN_TEST_AMQP_URL and WARREN_TEST_HTTP_URL name no broker")
	}
	queue := fmt.Sprintf("amqpctl test/%08x %%", rand.Uint32())
	cli := func(want exit.Code, input string, args ...string) (string, string) {
		t.Helper()
		var out, err bytes.Buffer
		args = append([]string{"--url", httpURL, "--amqp-url", amqpURL}, args...)
		if code := run(t.Context(), args, streams{in: strings.NewReader(input), out: &out, err: &err}); code != want {
			t.Errorf("%q: code %d, want %d\n%s%s", args[4:], code, want, out.String(), err.String())
		}
		return out.String(), err.String()
	}
	defer cli(exit.Data, "", "queue", "get", queue)
	defer cli(exit.OK, "", "queue", "delete", queue)
	for _, kind := range []string{"classic", "quorum"} {
		cli(exit.OK, "", "queue", "declare", queue, "--type", kind)
		cli(exit.OK, "", "queue", "declare", queue, "--type", kind)
		if _, err := cli(exit.Data, "", "queue", "declare", queue, "--type", kind, "--arg", "x-max-length=5"); !strings.Contains(err, "inequivalent arg 'x-max-length'") {
			t.Errorf("redeclare: %s", err)
		}
		if out, _ := cli(exit.OK, "", "queue", "get", queue, "-o", "json"); !strings.Contains(out, `"durable": true`) {
			t.Errorf("get: %s", out)
		}
		if out, _ := cli(exit.OK, "", "queue", "ls", "--no-headers"); !strings.Contains(out, queue) {
			t.Errorf("ls: %s", out)
		}
		var lines strings.Builder
		for i := range 3000 {
			fmt.Fprintf(&lines, "line %d\n", i)
		}
		cli(exit.OK, lines.String(), "publish", queue, "--lines", "--quiet")
		first, _ := cli(exit.OK, "", "consume", queue, "--count", "1000", "--quiet")
		rest, _ := cli(exit.OK, "", "consume", queue, "--until-empty", "--quiet")
		if first+rest != lines.String() {
			t.Errorf("%s: %d and %d bytes came back, not the %d published in order", kind, len(first), len(rest), lines.Len())
		}
		cli(exit.OK, "", "publish", queue, "-d", "x", "--count", "7")
		if out, _ := cli(exit.OK, "", "queue", "purge", queue, "--quiet"); out != "7\n" {
			t.Errorf("purge printed %q", out)
		}
		if kind == "classic" {
			cli(exit.OK, "", "queue", "delete", queue)
		}
	}
	cli(exit.Data, "", "publish", queue+"?", "-d", "x")
	cli(exit.Data, "", "consume", queue+"?")
	cli(exit.OK, "", "status")
	if out, _ := cli(exit.OK, "", "bench", "-C", "2000", "--quiet"); !strings.Contains(out, "consumed 2,000, not consumed 0, duplicates 0") {
		t.Errorf("bench: %s", out)
	}
}

// TestObjectsAgainstBroker makes, lists and removes one of every kind of object, and looks at what another tool would see.
func TestObjectsAgainstBroker(t *testing.T) {
	amqpURL, httpURL := os.Getenv("WARREN_TEST_AMQP_URL"), os.Getenv("WARREN_TEST_HTTP_URL")
	if amqpURL == "" || httpURL == "" {
		t.Skip("WARREN_TEST_AMQP_URL and WARREN_TEST_HTTP_URL name no broker")
	}
	unique := fmt.Sprintf("amqpctl/%08x é", rand.Uint32())
	cli := func(want exit.Code, input string, args ...string) (string, string) {
		t.Helper()
		var out, err bytes.Buffer
		if code := run(t.Context(), append([]string{"--url", httpURL, "--amqp-url", amqpURL}, args...), streams{in: strings.NewReader(input), out: &out, err: &err}); code != want {
			t.Errorf("%q: code %d, want %d\n%s%s", args, code, want, out.String(), err.String())
		}
		return out.String(), err.String()
	}
	shows := func(want string, args ...string) {
		t.Helper()
		if out, _ := cli(exit.OK, "", args...); strings.TrimSpace(out) != want {
			t.Errorf("%q printed %q, want %q", args, out, want)
		}
	}
	vhost, user := unique+" v", unique+" u"
	in := func(args ...string) []string { return append(args, "--vhost", vhost) }

	cli(exit.OK, "", "vhost", "add", vhost, "--description", "first")
	defer cli(exit.Data, "", "vhost", "rm", vhost)
	cli(exit.OK, "", "vhost", "add", vhost, "--description", "second")
	shows(vhost+",second", "vhost", "ls", "--columns", "name,description", "--filter", "name="+vhost, "-o", "csv", "--no-headers")

	cli(exit.OK, "secret\n", "user", "add", user, "--password-stdin", "--tags", "management")
	defer cli(exit.Data, "", "user", "rm", user)
	cli(exit.Data, "", "user", "add", user, "again")
	cli(exit.OK, "", "permission", "set", user, "^c", "", ".*", "--vhost", vhost)
	shows(user+",^c,,.*", in("permission", "ls", "--filter", "user="+user, "-o", "csv", "--columns", "user,configure,write,read", "--no-headers")...)
	login := strings.Replace(httpURL, "guest:guest@", url.UserPassword(user, "secret").String()+"@", 1)
	cli(exit.OK, "", "vhost", "ls", "--url", login)
	cli(exit.OK, "", "permission", "topic", "set", user, "amq.topic", "^{username}", "", "--vhost", vhost)
	shows(user+",amq.topic,^{username},", in("permission", "topic", "ls", "-o", "csv", "--columns", "user,exchange,write,read", "--no-headers")...)
	cli(exit.OK, "", "permission", "topic", "rm", user, "amq.topic", "--vhost", vhost)
	boundsAgainstBroker(cli, shows, in, user, vhost)
	cli(exit.OK, "", "user", "tags", user, "monitoring")
	cli(exit.OK, "", "node", "ls", "--url", login) // the password outlives a change of the tags
	cli(exit.OK, "", "user", "passwd", user, "other")
	cli(exit.Auth, "", "node", "ls", "--url", login)
	shows(user, "user", "ls", "--filter", "name="+user, "--filter", "tags~monitoring", "-o", "name")

	cli(exit.OK, "", in("exchange", "declare", "from/x", "--type", "topic", "--alternate", "rest")...)
	cli(exit.OK, "", in("exchange", "declare", "from/x", "--type", "topic", "--alternate", "rest")...)
	cli(exit.Data, "", in("exchange", "declare", "from/x", "--type", "fanout")...)
	cli(exit.OK, "", in("exchange", "declare", "rest", "--type", "fanout", "--internal")...)
	cli(exit.OK, "", in("queue", "declare", "to%q")...)
	cli(exit.OK, "", in("binding", "add", "from/x", "to%q", "--key", "a.#", "--arg", "x=5")...)
	cli(exit.OK, "", in("binding", "add", "from/x", "to%q", "--key", "a.#")...)
	cli(exit.OK, "", in("binding", "add", "from/x", "rest", "--to", "exchange")...)
	cli(exit.Data, "", in("binding", "add", "from/x", "none")...)
	shows("a.#\na.#", append(in("binding", "ls", "--source", "from/x", "--queue", "to%q", "--columns", "routing_key", "--no-headers"), "-q")...)
	cli(exit.OK, "", in("binding", "rm", "from/x", "to%q", "--key", "a.#", "--arg", "x=5")...)
	cli(exit.Data, "", in("binding", "rm", "from/x", "to%q", "--key", "a.#", "--arg", "x=5")...)
	cli(exit.OK, "", in("binding", "rm", "from/x", "to%q", "--all")...)
	cli(exit.Data, "", in("exchange", "delete", "from/x", "--if-unused")...)
	cli(exit.OK, "", in("exchange", "delete", "from/x", "--dry-run")...)
	cli(exit.OK, "", in("exchange", "delete", "from/x", "rest")...)

	cli(exit.OK, "", "permission", "rm", user, "--vhost", vhost)
	cli(exit.OK, "", "user", "rm", user)
	cli(exit.OK, "", "vhost", "rm", vhost)
}

// boundsAgainstBroker sets and removes limits and policies.
func boundsAgainstBroker(cli func(want exit.Code, input string, args ...string) (string, string), shows func(want string, args ...string), in func(args ...string) []string, user, vhost string) {
	cli(exit.OK, "", "vhost", "limit", "set", vhost, "max-queues", "100")
	cli(exit.OK, "", "user", "limit", "set", user, "max-channels", "100")
	shows(user+",max-channels=100", "user", "limit", "ls", "--filter", "user="+user, "-o", "csv", "--no-headers")
	shows(vhost+",max-queues=100", "vhost", "limit", "ls", "--filter", "vhost="+vhost, "-o", "csv", "--no-headers")
	cli(exit.OK, "", "vhost", "limit", "rm", vhost, "max-queues")
	cli(exit.OK, "", in("policy", "set", "limits", "^po", "max-length=5", "--apply-to", "queues")...)
	shows("limits,^po,queues,0,\"{\"\"max-length\"\":5}\"", in("policy", "ls", "-o", "csv", "--no-headers", "--columns", "name,pattern,apply-to,priority,definition")...)
	cli(exit.Data, "", in("policy", "set", "limits", "^po", "max-length=-5")...)
	cli(exit.OK, "", in("operator-policy", "set", "bounds", "", "expires=1000000")...)
	cli(exit.OK, "", in("operator-policy", "rm", "bounds")...)
	cli(exit.OK, "", in("policy", "rm", "limits")...)
}
