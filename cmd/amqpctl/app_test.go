package main

import (
	"bytes"
	"context"
	"encoding/json"
	"fmt"
	"io"
	"net/http"
	"net/http/httptest"
	"os"
	"path/filepath"
	"strings"
	"sync"
	"testing"

	"github.com/warrenmq/warren/cmd/amqpctl/internal/exit"
	"github.com/warrenmq/warren/cmd/amqpctl/internal/fakebroker"
)

// world is a management API that answers from a table and a broker.
type world struct {
	t       *testing.T
	broker  *fakebroker.Broker
	http    *httptest.Server
	answers map[string]answer                             // by "METHOD path?query"
	lists   map[string]string                             // answers to GET by path alone, whatever the query
	hook    func(http.ResponseWriter, *http.Request) bool // answers before the tables do, if it returns true
	mu      sync.Mutex
	seen    []string // requests, with their bodies
	reason  string   // the header X-Reason that came last
}

type answer struct {
	status int
	body   string
}

func newWorld(t *testing.T, cfg fakebroker.Config) *world {
	t.Helper()
	w := &world{t: t, broker: fakebroker.Start(t, cfg), answers: map[string]answer{}}
	w.http = httptest.NewServer(http.HandlerFunc(func(rw http.ResponseWriter, r *http.Request) {
		body, _ := io.ReadAll(r.Body)
		key := r.Method + " " + r.RequestURI
		w.mu.Lock()
		defer w.mu.Unlock()
		w.seen = append(w.seen, strings.TrimSpace(key+" "+string(body)))
		w.reason = r.Header.Get("X-Reason")
		if w.hook != nil && w.hook(rw, r) {
			return
		}
		a, ok := w.answers[key]
		if list, isList := w.lists[r.URL.EscapedPath()]; !ok && isList && r.Method == http.MethodGet {
			a, ok = answer{200, list}, true
		}
		if !ok {
			a = answer{404, `{"error":"Object Not Found","reason":"Not Found"}`}
		}
		rw.WriteHeader(a.status)
		fmt.Fprint(rw, a.body)
	}))
	t.Cleanup(w.http.Close)
	for _, name := range []string{"AMQPCTL_URL", "AMQPCTL_AMQP_URL", "AMQPCTL_VHOST", "AMQPCTL_OUTPUT", "AMQPCTL_TIMEOUT"} {
		t.Setenv(name, "") // whatever the environment of the test is
		os.Unsetenv(name)
	}
	t.Setenv("AMQPCTL_URL", w.http.URL)
	t.Setenv("AMQPCTL_AMQP_URL", w.broker.URL())
	return w
}

// run runs a command line with standard input and returns what it wrote.
func (w *world) run(input string, args ...string) (out, err string, code exit.Code) {
	w.t.Helper()
	var stdout, stderr bytes.Buffer
	code = run(w.t.Context(), args, streams{in: strings.NewReader(input), out: &stdout, err: &stderr})
	return stdout.String(), stderr.String(), code
}

// want runs a command line and compares all that it does.
func (w *world) want(args string, code exit.Code, stdout, stderr string) {
	w.t.Helper()
	out, err, got := w.run("", strings.Fields(args)...)
	if got != code || out != stdout || err != stderr {
		w.t.Errorf("amqpctl %s\n code %d, want %d\n out %q\nwant %q\n err %q\nwant %q", args, got, code, out, stdout, err, stderr)
	}
}

// misuses are command lines with a part of what they are answered with.
var misuses = map[string]string{
	"publish orders --dry-run":        "unknown flag \"--dry-run\"; see `amqpctl publish --help`",
	"queue delete orders --if-unusd":  "did you mean \"--if-unused\"? See `amqpctl queue delete --help`",
	"queue purge":                     "the name of a queue is missing",
	"queue ls orders":                 `unexpected argument "orders"`,
	"queue declare q --type mirrored": `unknown --type "mirrored"`,
	"queue declare q --type quorum --arg x-queue-type=classic": "contradicts",
	"queue declare q --arg x":                                  "is not KEY=VALUE",
	"queue ls -o yaml":                                         `unknown output format "yaml", want table, wide, json, jsonl, csv or name`,
	"queue get q -o csv":                                       `unknown output format "csv", want table or json`,
	"queue ls --filter messages":                               `"messages" is not a filter`,
	"queue ls --filter messages>many":                          `"many" is not a number`,
	"queue ls --filter name~(":                                 "the filter on name: error parsing regexp",
	"queue ls --limit 0":                                       "--limit must be at least 1",
	"queue ls --watch=5":                                       `invalid value "5" for flag --watch`,
	"queue ls --watch 5s":                                      `unexpected argument "5s"; a time for --watch stands behind =: --watch=5s`,
	"queue ls --watch=1ms":                                     "less than 100ms",
	"queue peek":                                               "the name of a queue is missing",
	"queue peek q --state dead":                                `unknown --state "dead"`,
	"queue peek q --count 0":                                   "--count be at least 1",
	"queue watch q --interval 1ms":                             "--interval must be at least 100ms",
	"exchange declare":                                         "the name of an exchange is missing",
	"exchange declare x --alternate y --arg alternate-exchange=z": "contradicts",
	"binding ls --queue q --exchange x":                           "exclude each other",
	"binding ls -A --queue q":                                     "not of --all-vhosts",
	"binding add x":                                               "the destination is missing",
	"binding add x q r":                                           `unexpected argument "r"`,
	"binding add x q --to topic":                                  `unknown --to "topic"`,
	"binding rm x q --all --key k":                                "--all excludes",
	"connection close":                                            "the name of a connection, --user or --all is missing",
	"connection close c --all":                                    "exclude each other",
	"vhost add":                                                   "the name of a vhost is missing",
	"user passwd":                                                 "the name of a user is missing",
	"permission set u .* .*":                                      "want three patterns behind the user, CONFIGURE WRITE READ, not 2",
	"policy set p ^a":                                             "want a pattern and settings behind the name",
	"policy set p ^a max-length":                                  "is not KEY=VALUE",
	"queue set q":                                                 "want an argument KEY=VALUE, --without KEY or --reset",
	"parameter set shovel s":                                      "want COMPONENT NAME JSON, not 2 words",
	"global-parameter rm":                                         "want NAME, not 0 words",
	"operator-policy set":                                         "the name of an operator-policy is missing",
	"permission rm":                                               "the name of a user is missing",
	"user list shop":                                              `unexpected argument "shop"`,
	"--timeout 5x status":                                         `invalid value "5x" for flag --timeout`,
	"--timeout 0s status":                                         "--timeout must be longer",
	"publish":                                                     "the name of a queue, or --exchange, is missing",
	"publish q --exchange x":                                      "exclude each other",
	"publish q --key k":                                           "--key goes with --exchange",
	"publish q extra -d x":                                        `unexpected argument "extra"`,
	"publish q -d x --file y":                                     "exclude each other",
	"publish q -d x --lines":                                      "--lines reads a file",
	"publish q -d x --prop colour=red":                            `unknown property "colour"`,
	"publish q -d x --header a":                                   "is not KEY=VALUE",
	"publish q -d x --window 0":                                   "--window",
	"consume":                                                     "the name of a queue is missing",
	"consume q --ack never":                                       `unknown --ack "never"`,
	"consume q --format xml":                                      `unknown --format "xml"`,
	"consume q --count 0":                                         "--count",
	"raft status":                                                 "the name of a queue is missing",
	"raft status a b":                                             `unexpected argument "b"`,
	"raft add":                                                    "the name of a queue is missing",
	"raft add orders":                                             "the name of a node is missing",
	"raft remove orders":                                          "the name of a node is missing",
	"raft add orders --wait":                                      `unknown flag "--wait"`,
	"bench -s 3":                                                  "the size must be",
	"bench -z soon":                                               "is no time",
	"bench -A 2000":                                               "never comes",
	"bench orders":                                                `unexpected argument "orders"`,
	"frobnicate":                                                  `unknown command "frobnicate"; see`,
	"help frobnicate":                                             `unknown command "frobnicate"; see`,
}

func TestUsageErrorsAreOneLineAndTouchNothing(t *testing.T) {
	w := newWorld(t, fakebroker.Config{})
	w.broker.Put("orders", "a")
	for args, text := range misuses {
		out, err, code := w.run("", strings.Fields(args)...)
		if code != exit.Usage || out != "" || !strings.Contains(err, text) || strings.Count(err, "\n") != 1 || !strings.HasPrefix(err, "amqpctl: ") {
			t.Errorf("amqpctl %s\n code %d, out %q, err %q; want %q", args, code, out, err, text)
		}
	}
	if bodies, _ := w.broker.Bodies("orders"); len(bodies) != 1 || len(w.seen) > 0 {
		t.Errorf("something was done: %d messages, requests %q", len(bodies), w.seen)
	}
}

func TestMissingCommandShowsHelpOnStandardError(t *testing.T) {
	w := newWorld(t, fakebroker.Config{})
	for args, text := range map[string]string{"": "COMMANDS:", "queue": "amqpctl queue purge", "raft": "remove", "--quiet": "COMMANDS:"} {
		out, err, code := w.run("", strings.Fields(args)...)
		if code != exit.Usage || out != "" || !strings.Contains(strings.ReplaceAll(err, "   purge", "amqpctl queue purge"), text) {
			t.Errorf("amqpctl %s: code %d, out %q, err %.60q", args, code, out, err)
		}
	}
}

func TestHelpGoesToStandardOutput(t *testing.T) {
	w := newWorld(t, fakebroker.Config{})
	for args, text := range map[string]string{
		"--help": "COMMANDS:", "help": "COMMANDS:", "queue --help": "purge", "help queue declare": "--auto-delete", "publish -h": "--lines", "--version": "version",
		"help exit-codes": "  77  permission denied",
	} {
		out, err, code := w.run("", strings.Fields(args)...)
		if code != exit.OK || err != "" || !strings.Contains(out, text) {
			t.Errorf("amqpctl %s: code %d, err %q, out %.200q", args, code, err, out)
		}
	}
}

func TestSettingsErrors(t *testing.T) {
	w := newWorld(t, fakebroker.Config{})
	for args, text := range map[string]string{
		"status --url localhost:15672":                "bad --url",
		"publish q -d x --amqp-url http://u:geheim@h": "bad --amqp-url",
	} {
		out, err, code := w.run("", strings.Fields(args)...)
		if code != exit.Config || out != "" || !strings.Contains(err, text) || strings.Contains(err, "geheim") {
			t.Errorf("amqpctl %s: code %d, err %q", args, code, err)
		}
	}
	w.want("status --url http://127.0.0.1:1", exit.Unavailable, "", "amqpctl: management API 127.0.0.1:1: dial tcp 127.0.0.1:1: connect: connection refused\n")
	w.want("publish q -d x --amqp-url amqp://127.0.0.1:1", exit.Unavailable, "", "amqpctl: AMQP 127.0.0.1:1: dial tcp 127.0.0.1:1: connect: connection refused\n")
	w.want("publish q -d x -p nix", exit.Data, "", "amqpctl: AMQP "+strings.TrimPrefix(w.broker.URL(), "amqp://guest:guest@")+": 530 NOT_ALLOWED - vhost nix not found\n")
}

// The virtual host comes from --vhost, else from the AMQP URL, else it is /.
func TestVhost(t *testing.T) {
	w := newWorld(t, fakebroker.Config{})
	for _, c := range []struct{ amqp, env, args, want string }{
		{w.broker.URL(), "", "", "%2F"},
		{w.broker.URL() + "/orders", "", "", "orders"},
		{w.broker.URL() + "/orders", "e", "", "e"},
		{w.broker.URL() + "/orders", "e", " -p a/b", "a%2Fb"},
	} {
		t.Setenv("AMQPCTL_AMQP_URL", c.amqp)
		t.Setenv("AMQPCTL_VHOST", c.env)
		w.seen = nil
		w.run("", strings.Fields("queue get q"+c.args)...)
		if want := "[GET /api/queues/" + c.want + "/q]"; fmt.Sprint(w.seen) != want {
			t.Errorf("%+v: requests %q", c, w.seen)
		}
	}
}

const overviewJSON = `{"cluster_name":"rabbit@one","product_name":"Warren","product_version":"0.1","rabbitmq_version":"4.1.0",
 "object_totals":{"connections":1,"channels":2,"consumers":3,"queues":1234,"exchanges":7},
 "queue_totals":{"messages":12345,"messages_ready":12000,"messages_unacknowledged":345},
 "message_stats":{"publish":5,"publish_details":{"rate":12.5},"ack_details":{"rate":0.4}},
 "listeners":[{"protocol":"amqp","port":5672},{"protocol":"amqp","port":5672},{"protocol":"http","port":15672}]}`

func TestStatus(t *testing.T) {
	w := newWorld(t, fakebroker.Config{})
	w.answers["GET /api/overview"] = answer{200, overviewJSON}
	w.answers["GET /api/nodes"] = answer{200, `[
	 {"name":"rabbit@one","running":true,"uptime":90000,"mem_used":1048576,"mem_limit":2097152,"disk_free":10737418240,"disk_free_limit":50000000,"fd_used":100,"fd_total":105,"sockets_used":3,"sockets_total":0,"processors":2,"partitions":[]},
	 {"name":"rabbit@two","running":true,"uptime":1,"mem_used":2000000,"mem_limit":2097152,"mem_alarm":true,"disk_free":60000000,"disk_free_limit":50000000,"partitions":["rabbit@one"]},
	 {"name":"rabbit@three","running":false}]`}
	w.want("status", exit.OK, `Cluster    rabbit@one
Version    Warren 0.1 (API of RabbitMQ 4.1.0)
Nodes      2 of 3 running
Objects    1 connections, 2 channels, 3 consumers, 1,234 queues, 7 exchanges
Messages   12,345: 12,000 ready, 345 unacknowledged
Rates      publish 12/s, confirm 0/s, deliver and get 0/s, ack 0.4/s, redeliver 0/s
Listeners  amqp 5672, http 15672

NODE          STATE    UPTIME   MEMORY    LIMIT  DISK FREE  FILES  SOCKETS  CPUS
rabbit@one    running   1m30s  1.0 MiB  2.0 MiB   10.0 GiB    100        3     2
rabbit@two    running      0s  1.9 MiB  2.0 MiB   57.2 MiB      -        -     -
rabbit@three  down          -        -        -          -      -        -     -

WARNING  node rabbit@one: file descriptors nearly used up (100 of 105)
ALARM  node rabbit@two: memory alarm, publishers are blocked (1.9 MiB used, limit 2.0 MiB)
WARNING  node rabbit@two: free disk space close to its limit (57.2 MiB, limit 47.7 MiB)
ALARM  node rabbit@two: partitioned from rabbit@one
ALARM  node rabbit@three: not running
`, "")
	out, _, code := w.run("", "status", "-o", "json")
	if code != exit.OK || !sameJSON(t, out, overviewJSON) {
		t.Errorf("json: code %d, %s", code, out)
	}
}

// sameJSON tells whether two JSON texts are equal apart from white space, with the order of keys and the form of numbers.
func sameJSON(t *testing.T, a, b string) bool {
	t.Helper()
	var x, y bytes.Buffer
	if err := json.Compact(&x, []byte(a)); err != nil {
		t.Fatalf("%v in %q", err, a)
	}
	if err := json.Compact(&y, []byte(b)); err != nil {
		t.Fatalf("%v in %q", err, b)
	}
	return x.String() == y.String()
}

const tableQuery = "columns=name%2Ctype%2Cdurable%2Cauto_delete%2Cexclusive%2Cstate%2Cmessages_ready%2Cmessages_unacknowledged%2Cmessages%2Cconsumers%2C" +
	"message_stats.publish_details.rate%2Cmessage_stats.deliver_get_details.rate%2Cmessage_stats.ack_details.rate&"

const queuesJSON = `{"items":[{"name":"orders","vhost":"/","type":"quorum","state":"running","durable":true,"messages_ready":12,"messages_unacknowledged":3,"messages":15,"consumers":2,
 "message_stats":{"publish_details":{"rate":100.4}}},{"name":"new\u001b[31m","vhost":"/","type":"classic","durable":false,"auto_delete":true,"exclusive":true,"message_stats":[]}],"page":1,"page_count":1}`

func TestQueueList(t *testing.T) {
	w := newWorld(t, fakebroker.Config{})
	w.answers["GET /api/queues/%2F?"+tableQuery+"page=1&page_size=500"] = answer{200, queuesJSON}
	w.want("queue ls", exit.OK, ""+
		"NAME         TYPE     FLAGS    STATE    READY  UNACKED  TOTAL  CONSUMERS  IN/S  OUT/S  ACK/S\n"+
		"orders       quorum   D        running     12        3     15          2   100      0      0\n"+
		"new\\x1b[31m  classic  AD excl  -            -        -      -          -     0      0      0\n", "")
	w.answers["GET /api/queues?"+strings.Replace(tableQuery, "columns=", "columns=vhost%2C", 1)+"name=ord&"+"page=1&page_size=500&sort=messages&sort_reverse=true"] = answer{200, queuesJSON}
	out, _, code := w.run("", strings.Fields("queues list -A --name ord --sort -messages --no-headers")...)
	if code != exit.OK || !strings.HasPrefix(out, "/  orders") || strings.Contains(out, "new") {
		t.Errorf("all vhosts: code %d, %q, requests %q", code, out, w.seen)
	}
	w.answers["GET /api/queues/%2F?columns=name%2Cmessages%2Cstate&page=1&page_size=500"] = answer{200, queuesJSON}
	w.want("queue ls --columns name,messages,state", exit.OK, ""+
		"name         messages  state\norders             15  running\nnew\\x1b[31m         -  -\n", "")
	w.answers["GET /api/queues/%2F?page=1&page_size=500"] = answer{200, queuesJSON}
	out, _, _ = w.run("", "queue", "ls", "-o", "json")
	if items := queuesJSON[len(`{"items":`):strings.Index(queuesJSON, `,"page":1`)]; !sameJSON(t, out, items) {
		t.Errorf("json: %s", out)
	}
	w.answers["GET /api/queues/%2F?page=1&page_size=500"] = answer{200, `{"items":[],"page_count":0}`}
	w.want("queue ls -o json", exit.OK, "[]\n", "")
}

func TestQueueGet(t *testing.T) {
	w := newWorld(t, fakebroker.Config{})
	object := `{"name":"orders","vhost":"/","type":"quorum","state":"running","durable":true,"arguments":{"x-queue-type":"quorum"},"leader":"rabbit@one","members":["rabbit@one","rabbit@two"],
	 "messages":1500,"messages_ready":1500,"messages_unacknowledged":0,"consumers":1,"consumer_details":[{"consumer_tag":"c1","channel_details":{"name":"1 -> 2 (1)"},"prefetch_count":10,"ack_required":true}],
	 "big":12345678901234567890}`
	w.answers["GET /api/queues/%2F/orders"] = answer{200, object}
	w.want("queue get orders", exit.OK, `Name        orders
Vhost       /
Type        quorum
State       running
Properties  durable
Arguments   {"x-queue-type":"quorum"}
Leader      rabbit@one
Members     rabbit@one, rabbit@two
Messages    1,500: 1,500 ready, 0 unacknowledged
Consumers   1
Rates       publish 0/s, deliver and get 0/s, ack 0/s, redeliver 0/s
Consumer    c1 on 1 -> 2 (1), prefetch 10, manual ack
`, "")
	out, _, _ := w.run("", "queue", "get", "orders", "-o", "json")
	if !sameJSON(t, out, object) {
		t.Errorf("json: %s", out)
	}
	out, _, code := w.run("", "queue", "show", "orders", "orders", "-o", "json")
	if code != exit.OK || !sameJSON(t, out, "["+object+","+object+"]") {
		t.Errorf("several: code %d, %s", code, out)
	}
	w.want("queue get nix", exit.Data, "", "amqpctl: queue \"nix\" in vhost \"/\": Not Found (HTTP 404)\n")
	out, err, code := w.run("", "queue", "get", "nix", "orders", "-o", "json")
	if code != exit.Partial || !sameJSON(t, out, "["+object+"]") || !strings.Contains(err, "nix") {
		t.Errorf("partly: code %d, %s, %s", code, out, err)
	}
}

func TestQueueDeclare(t *testing.T) {
	w := newWorld(t, fakebroker.Config{})
	w.answers["PUT /api/queues/%2F/orders"] = answer{201, ""}
	w.answers["PUT /api/queues/v%201/old"] = answer{204, ""}
	w.answers["PUT /api/queues/%2F/other"] = answer{400, `{"error":"bad_request","reason":"inequivalent arg 'durable' for queue 'other'"}`}
	w.want("queue declare orders --type quorum --arg x-max-length=10 --arg x-overflow=reject-publish", exit.OK, "", "declared queue \"orders\" in vhost \"/\"\n")
	w.want("queue declare --quiet orders --durable=false --auto-delete", exit.OK, "", "")
	w.run("", "queue", "declare", "old", "-p", "v 1")
	w.want("queue declare other", exit.Data, "", "amqpctl: queue \"other\" in vhost \"/\": inequivalent arg 'durable' for queue 'other' (HTTP 400)\n")
	want := []string{
		`PUT /api/queues/%2F/orders {"arguments":{"x-max-length":10,"x-overflow":"reject-publish","x-queue-type":"quorum"},"auto_delete":false,"durable":true}`,
		`PUT /api/queues/%2F/orders {"arguments":{},"auto_delete":true,"durable":false}`,
		`PUT /api/queues/v%201/old {"arguments":{},"auto_delete":false,"durable":true}`,
		`PUT /api/queues/%2F/other {"arguments":{},"auto_delete":false,"durable":true}`,
	}
	if fmt.Sprint(w.seen) != fmt.Sprint(want) {
		t.Errorf("requests\n%s\nwant\n%s", strings.Join(w.seen, "\n"), strings.Join(want, "\n"))
	}
}

func TestQueueDelete(t *testing.T) {
	w := newWorld(t, fakebroker.Config{})
	w.answers["DELETE /api/queues/%2F/a"] = answer{204, ""}
	w.answers["DELETE /api/queues/%2F/b?if-empty=true&if-unused=true"] = answer{400, `{"error":"bad_request","reason":"queue 'b' in vhost '/' in use"}`}
	w.want("queue delete a", exit.OK, "", "deleted queue \"a\" in vhost \"/\"\n")
	w.want("queue rm a nix --yes", exit.Partial, "", "deleted queue \"a\" in vhost \"/\"\namqpctl: queue \"nix\" in vhost \"/\": Not Found (HTTP 404)\n")
	w.want("queue rm nix nax", exit.Data, "", "amqpctl: queue \"nix\" in vhost \"/\": Not Found (HTTP 404)\namqpctl: queue \"nax\" in vhost \"/\": Not Found (HTTP 404)\n")
	w.want("queue delete b --if-unused --if-empty", exit.Data, "", "amqpctl: queue \"b\" in vhost \"/\": queue 'b' in vhost '/' in use (HTTP 400)\n")
	w.want("queue delete -- --yes", exit.Data, "", "amqpctl: queue \"--yes\" in vhost \"/\": Not Found (HTTP 404)\n")
}

func TestQueuePurge(t *testing.T) {
	w := newWorld(t, fakebroker.Config{})
	w.broker.Put("a", "1", "2", "3")
	w.broker.Put("b", "1")
	w.want("queue purge a nix b", exit.Partial, "NAME  PURGED\na          3\nb          1\n", "amqpctl: queue \"nix\" in vhost \"/\": 404 NOT_FOUND - no queue 'nix' in vhost '/'\n")
	w.broker.Put("a", "1", "2")
	w.want("queue purge a -q", exit.OK, "2\n", "")
	w.want("queue purge a -o json", exit.OK, "[\n  {\n    \"name\": \"a\",\n    \"vhost\": \"/\",\n    \"messages_purged\": 0\n  }\n]\n", "")
	w.want("queue purge nix", exit.Data, "", "amqpctl: queue \"nix\" in vhost \"/\": 404 NOT_FOUND - no queue 'nix' in vhost '/'\n")
}

func TestPublish(t *testing.T) {
	w := newWorld(t, fakebroker.Config{})
	w.broker.Declare("q")
	w.want("publish q -d hello", exit.OK, "", "1 message confirmed by queue \"q\" in vhost \"/\"\n")
	w.want("publish -q --exchange= --key q --data hello", exit.OK, "", "")
	w.want("publish nix -d hello", exit.Data, "", "amqpctl: queue \"nix\" in vhost \"/\": no such queue: returned as unroutable (312 NO_ROUTE)\n")
	w.want("publish nix -d hello --mandatory=false -q", exit.OK, "", "")
	if out, err, code := w.run("from\nstdin", "publish", "q", "--quiet", "-o", "json"); code != exit.OK || err != "" || !strings.Contains(out, `"confirmed": 1`) {
		t.Errorf("json: code %d, %q, %q", code, out, err)
	}
	file := filepath.Join(t.TempDir(), "lines")
	if err := os.WriteFile(file, []byte("one\ntwo\r\n\nfour"), 0o600); err != nil {
		t.Fatal(err)
	}
	w.want("publish q --lines -q --file "+file, exit.OK, "", "")
	if _, err, code := w.run("five\nsix\n", "publish", "--lines", "q", "--file", "-"); code != exit.OK || !strings.HasPrefix(err, "2 messages confirmed") {
		t.Errorf("stdin: code %d, %q", code, err)
	}
	w.run("", "publish", "q", "-d", "x", "--count", "3")
	w.want("publish q --file /nonexistent", exit.Data, "", "amqpctl: open /nonexistent: no such file or directory\n")
	bodies, _ := w.broker.Bodies("q")
	if want := []string{"hello", "hello", "from\nstdin", "one", "two\r", "", "four", "five", "six", "x", "x", "x"}; fmt.Sprintf("%q", bodies) != fmt.Sprintf("%q", want) {
		t.Errorf("messages %q\nwant     %q", bodies, want)
	}
}

// A lost connection must say how far it came, in lines that a script can go on from.
func TestPublishTellsHowFarItCame(t *testing.T) {
	w := newWorld(t, fakebroker.Config{OnPub: func(n uint64) fakebroker.Fault {
		if n == 41 {
			return fakebroker.Hangup
		}
		return fakebroker.None
	}})
	w.broker.Declare("q")
	_, err, code := w.run(strings.Repeat("x\n", 50), "publish", "--lines", "q", "--window", "1")
	want := "amqpctl: queue \"q\" in vhost \"/\": connection lost: EOF; sent 41, confirmed 40, without an answer, so stored or not, 1; the first line not known to be confirmed is 41\n"
	if code != exit.Unavailable || err != want {
		t.Errorf("code %d, %q\nwant %q", code, err, want)
	}
}

func TestPublishedPropertiesAndHeaders(t *testing.T) {
	w := newWorld(t, fakebroker.Config{})
	w.broker.Declare("q")
	w.run("", "publish", "q", "-d", "x", "--header", "a=1", "--header", "list=b,c", "--prop", "content-type=text/plain", "--prop", "priority=3", "--persistent=false")
	out, _, code := w.run("", "consume", "q", "-n", "1", "-o", "json", "--quiet")
	want := `{"payload_bytes":1,"redelivered":false,"exchange":"","routing_key":"q","properties":{"content_type":"text/plain","delivery_mode":1,"headers":{"a":1,"list":"b,c"},"priority":3},"payload":"x","payload_encoding":"string"}` + "\n"
	if code != exit.OK || out != want {
		t.Errorf("code %d, %s", code, out)
	}
}

func TestConsume(t *testing.T) {
	w := newWorld(t, fakebroker.Config{})
	w.broker.Put("q", "a", "b", "c", "d")
	w.want("consume q --count 1", exit.OK, "a\n", "1 message from queue \"q\" in vhost \"/\"\n")
	w.want("consume --count 2 q --ack requeue --format raw", exit.OK, "bc", "2 messages from queue \"q\" in vhost \"/\"\n")
	w.want("consume q --until-empty --ack auto --quiet", exit.OK, "b\nc\nd\n", "")
	w.want("consume nix --count 1", exit.Data, "", "amqpctl: queue \"nix\" in vhost \"/\": 404 NOT_FOUND - no queue 'nix' in vhost '/'\n")
}

func TestInterruptedConsumeEndsCleanly(t *testing.T) {
	w := newWorld(t, fakebroker.Config{})
	w.broker.Put("q", "a")
	ctx, cancel := context.WithCancel(t.Context())
	var out, err bytes.Buffer
	code := run(ctx, []string{"consume", "q"}, streams{in: strings.NewReader(""), out: writerFunc(func(p []byte) { out.Write(p); cancel() }), err: &err})
	if code != exit.Interrupted || out.String() != "a\n" || err.String() != "1 message from queue \"q\" in vhost \"/\"\n" {
		t.Errorf("code %d, %q, %q", code, out.String(), err.String())
	}
	if left, _ := w.broker.Bodies("q"); len(left) != 0 {
		t.Error("what was written was not acknowledged")
	}
}

type writerFunc func(p []byte)

func (f writerFunc) Write(p []byte) (int, error) { f(p); return len(p), nil }

func TestBench(t *testing.T) {
	w := newWorld(t, fakebroker.Config{})
	out, err, code := w.run("", strings.Fields("bench -C 2000 -s 50 -q 100 -c 100 -x 2 -y 2 --queue-args x-max-length=5,x-a=b")...)
	if code != exit.OK || !strings.Contains(out, "Broker    Fake 1.0\n") || !strings.Contains(out, "ok: published 4,000, confirmed 4,000, consumed 4,000, not consumed 0") {
		t.Errorf("code %d\n%s%s", code, out, err)
	}
	out, _, code = w.run("", strings.Fields("bench --pmessages 500 -o json")...)
	var report struct {
		Published int `json:"published"`
		Check     struct {
			OK bool `json:"ok"`
		} `json:"check"`
	}
	if jsonErr := json.Unmarshal([]byte(out), &report); jsonErr != nil || code != exit.OK || report.Published != 500 || !report.Check.OK {
		t.Errorf("json: code %d, %v\n%s", code, jsonErr, out)
	}
}

func TestBenchFailsWhenCountsDisagree(t *testing.T) {
	w := newWorld(t, fakebroker.Config{OnPub: func(n uint64) fakebroker.Fault {
		if n == 100 {
			return fakebroker.Double
		}
		return fakebroker.None
	}})
	out, err, code := w.run("", strings.Fields("bench -C 500 --timeout 1s --quiet")...)
	if code != exit.Data || !strings.Contains(out, "DIFFERENCE: ") || err != "amqpctl: the counts do not agree: consumed more than once: 1\n" {
		t.Errorf("code %d, %q\n%s", code, err, out)
	}
}
