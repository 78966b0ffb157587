package main

import (
	"strings"
	"testing"

	"github.com/urfave/cli/v2"

	"github.com/warrenmq/warren/cmd/amqpctl/internal/exit"
	"github.com/warrenmq/warren/cmd/amqpctl/internal/fakebroker"
)

var listsJSON = map[string]string{
	"/api/exchanges/%2F": `[{"name":"","vhost":"/","type":"direct","durable":true},
	 {"name":"events","vhost":"/","type":"topic","durable":true,"auto_delete":true,"internal":true,"arguments":{"alternate-exchange":"rest"},"message_stats":{"publish_in_details":{"rate":12.5},"publish_out_details":{"rate":0.4}}}]`,
	"/api/bindings/%2F": `[{"source":"","vhost":"/","destination":"q","destination_type":"queue","routing_key":"q","arguments":{},"properties_key":"q"},
	 {"source":"events","vhost":"/","destination":"other","destination_type":"exchange","routing_key":"a.#","arguments":{"x-match":"any"},"properties_key":"a.%23~x"}]`,
	"/api/connections": `{"items":[{"name":"1.2.3.4:5 -> 6.7.8.9:5672","user":"shop","vhost":"/","state":"running","channels":3,"recv_oct_details":{"rate":2048},"send_oct_details":{"rate":10},
	  "client_properties":{"product":"pika","version":"1.3","connection_name":""},"ssl_protocol":"TLSv1.3"},
	 {"name":"b","user":"guest","vhost":"v","state":"blocked","channels":0,"client_properties":{"connection_name":"worker 7","product":"x"}}],"page_count":1}`,
	"/api/channels":                   `{"items":[{"name":"c (1)","user":"shop","vhost":"/","state":"running","confirm":true,"prefetch_count":50,"consumer_count":2,"messages_unacknowledged":7,"messages_unconfirmed":1,"message_stats":{"publish_details":{"rate":3}}}],"page_count":1}`,
	"/api/consumers/%2F":              `[{"consumer_tag":"tag","ack_required":true,"exclusive":true,"active":true,"prefetch_count":5,"queue":{"name":"q","vhost":"/"},"channel_details":{"name":"c (1)","user":"shop"}},{"consumer_tag":"two","ack_required":false,"active":false,"prefetch_count":0,"queue":{"name":"r","vhost":"/"},"channel_details":[]}]`,
	"/api/vhosts":                     `[{"name":"/","description":"Default","default_queue_type":"classic","messages":3,"messages_ready":1,"messages_unacknowledged":2},{"name":"v","tags":["a","b"]}]`,
	"/api/users":                      `[{"name":"guest","tags":["administrator","monitoring"],"password_hash":"x","hashing_algorithm":"rabbit_password_hashing_sha256","limits":{}},{"name":"old","tags":"management","password_hash":""}]`,
	"/api/permissions":                `[{"user":"guest","vhost":"/","configure":".*","write":".*","read":""}]`,
	"/api/topic-permissions":          `[{"user":"shop","vhost":"/","exchange":"events","write":"^{username}\\.","read":""}]`,
	"/api/policies":                   `[{"vhost":"/","name":"limits","pattern":"^a b","apply-to":"queues","definition":{"max-length":5,"overflow":"reject-publish"},"priority":3}]`,
	"/api/parameters":                 `[{"vhost":"/","component":"shovel","name":"s","value":{"src-queue":"q"},"state":"not served","reason":"this version has no shovels"},{"vhost":"v","component":"vhost-limits","name":"limits","value":{"max-queues":1}}]`,
	"/api/global-parameters":          `[{"name":"cluster_name","value":"blue"},{"name":"cluster_tags","value":{"zone":"x"}}]`,
	"/api/operator-policies/v":        `[{"vhost":"v","name":"bounds","pattern":"","apply-to":"all","definition":{"expires":1},"priority":0}]`,
	"/api/vhost-limits":               `[{"vhost":"/","value":{"max-queues":7,"max-connections":5}},{"vhost":"v","value":[]}]`,
	"/api/user-limits":                `[{"user":"shop","value":{"max-channels":10}}]`,
	"/api/nodes":                      `[{"name":"rabbit@one","running":true,"uptime":90000,"mem_used":1048576,"processors":2},{"name":"rabbit@two","running":false}]`,
	"/api/queues/%2F/orders/bindings": `[{"source":"events","vhost":"/","destination":"orders","destination_type":"queue","routing_key":"k","arguments":{},"properties_key":"k"}]`,
}

// shownLists are command lines and what they print.
var shownLists = []struct{ args, want string }{
	{"exchange ls", `
NAME         TYPE    FLAGS   IN/S  OUT/S  ALTERNATE
amq.default  direct  D          0      0  -
events       topic   D AD I    12    0.4  rest
`},
	{"binding ls", `
SOURCE       TO        DESTINATION  KEY  ARGUMENTS
amq.default  queue     q            q    -
events       exchange  other        a.#  {"x-match":"any"}
`},
	{"binding ls --queue orders", `
SOURCE  TO     DESTINATION  KEY  ARGUMENTS
events  queue  orders       k    -
`},
	{"connections list", `
NAME                       USER   VHOST  STATE    CHANNELS   FROM/S  TO/S  CLIENT
1.2.3.4:5 -> 6.7.8.9:5672  shop   /      running         3  2.0 KiB  10 B  pika 1.3
b                          guest  v      blocked         0      0 B   0 B  worker 7
`},
	{"channel ls", `
NAME   USER  VHOST  STATE    MODE  PREFETCH  CONSUMERS  UNACKED  UNCONFIRMED  IN/S  OUT/S  ACK/S
c (1)  shop  /      running  C           50          2        7            1   3.0      0      0
`},
	{"consumer ls", `
QUEUE  TAG  CHANNEL  ACK     FLAGS  PREFETCH  ACTIVE
q      tag  c (1)    manual  excl          5  true
r      two  -        auto    -             0  false
`},
	{"vhost ls", `
NAME  DESCRIPTION  DEFAULT TYPE  READY  UNACKED  TOTAL  IN/S  OUT/S
/     Default      classic           1        2      3     0      0
v     -            -                 -        -      -     0      0
`},
	{"user ls", `
NAME   TAGS                       PASSWORD  LIMITS
guest  administrator, monitoring  set       -
old    management                 none      -
`},
	{"permission ls -A", `
VHOST  USER   CONFIGURE  WRITE  READ
/      guest  .*         .*     ''
`},
	{"permission topic ls -A", `
VHOST  USER  EXCHANGE  WRITE          READ
/      shop  events    ^{username}\.  ''
`},
	{"policy ls -A", `
VHOST  NAME    PATTERN  APPLIES TO  PRIORITY  DEFINITION
/      limits  ^a b     queues             3  {"max-length":5,"overflow":"reject-publish"}
`},
	{"operator-policy ls -p v", `
NAME    PATTERN  APPLIES TO  PRIORITY  DEFINITION
bounds  ''       all                0  {"expires":1}
`},
	{"parameter ls", `
VHOST  COMPONENT     NAME    VALUE              STATE
/      shovel        s       {"src-queue":"q"}  not served
v      vhost-limits  limits  {"max-queues":1}   -
`},
	{"global-parameter ls", `
NAME          VALUE
cluster_name  blue
cluster_tags  {"zone":"x"}
`},
	{"vhost limit ls", `
VHOST  LIMITS
/      max-connections=5 max-queues=7
v      -
`},
	{"user limit ls", `
USER  LIMITS
shop  max-channels=10
`},
	{"node ls", `
NODE        STATE    UPTIME   MEMORY  LIMIT  DISK FREE  FILES  SOCKETS  CPUS
rabbit@one  running   1m30s  1.0 MiB      -          -      -        -     2
rabbit@two  down          -        -      -          -      -        -     -
`},
	// Filters, limits and formats.
	{"user ls --name OLD --no-headers", "\nold  management  none  -\n"},
	{"connection ls --filter channels>=1 --filter user!=guest -o name", "\n1.2.3.4:5 -> 6.7.8.9:5672\n"},
	{"connection ls --filter channels<1 -o name", "\nb\n"},
	{"connection ls --filter client_properties.connection_name~^worker -o name", "\nb\n"},
	{"exchange ls -o name", "\namq.default\nevents\n"},
	{"exchange ls -o name --limit 1", "\namq.default\n"},
	{"exchange ls --columns name,internal --filter type=topic -o csv", "\nname,internal\nevents,true\n"},
	{"permission ls -A -o csv", "\nVHOST,USER,CONFIGURE,WRITE,READ\n/,guest,.*,.*,''\n"},
	{"node ls -o jsonl --limit 1 --columns name", "\n" + `{"name":"rabbit@one","running":true,"uptime":90000,"mem_used":1048576,"processors":2}` + "\n"},
	{"vhost ls -o wide --filter name=v", `
NAME  DESCRIPTION  DEFAULT TYPE  READY  UNACKED  TOTAL  IN/S  OUT/S  TAGS       TRACING  FROM/S  TO/S
v     -            -                 -        -      -     0      0  ["a","b"]  -           0 B   0 B
`},
}

// Every list is the same command; what differs is the path and the columns.
func TestLists(t *testing.T) {
	w := newWorld(t, fakebroker.Config{})
	w.lists = listsJSON
	for _, c := range shownLists {
		out, err, code := w.run("", strings.Fields(c.args)...)
		if code != exit.OK || err != "" || out != c.want[1:] {
			t.Errorf("amqpctl %s: code %d, %s\n%s\nwant%s", c.args, code, err, out, c.want)
		}
	}
	out, _, _ := w.run("", "user", "ls", "-o", "json")
	if !sameJSON(t, out, listsJSON["/api/users"]) {
		t.Errorf("json: %s", out)
	}
	if out, err, code := w.run("", "vhost", "ls", "--url", w.http.URL+"/nowhere"); code != exit.Data || out != "" || !strings.Contains(err, "HTTP 404") {
		t.Errorf("a list that is not there: code %d, %q, %q", code, out, err)
	}
}

// Which list is asked for, and for which keys.
func TestListRequests(t *testing.T) {
	w := newWorld(t, fakebroker.Config{})
	for args, want := range map[string]string{
		"connection ls -p a/b --columns name":                 "GET /api/vhosts/a%2Fb/connections?columns=name&page=1&page_size=500",
		"channel ls -o name":                                  "GET /api/channels?columns=name&page=1&page_size=500",
		"consumer ls -A -o json":                              "GET /api/consumers?page=1&page_size=500",
		"consumer ls -o json --filter queue.name=q":           "GET /api/consumers/%2F?page=1&page_size=500",
		"queue ls -o name --filter messages>5":                "GET /api/queues/%2F?columns=name%2Cmessages&page=1&page_size=500",
		"queue ls --columns name --sort -messages --name a&b": "GET /api/queues/%2F?columns=name&name=a%26b&page=1&page_size=500&sort=messages&sort_reverse=true",
		"permission ls":                                       "GET /api/vhosts/%2F/permissions?columns=user%2Cconfigure%2Cwrite%2Cread&page=1&page_size=500",
		"binding ls --source s -o json":                       "GET /api/exchanges/%2F/s/bindings/source?page=1&page_size=500",
		"binding ls --source amq.default --queue q -o json":   "GET /api/bindings/%2F/e/amq.default/q/q?page=1&page_size=500",
		"binding ls --exchange x -o json":                     "GET /api/exchanges/%2F/x/bindings/destination?page=1&page_size=500",
		"binding ls --exchange x --source s -o json":          "GET /api/bindings/%2F/e/s/e/x?page=1&page_size=500",
	} {
		w.seen = nil
		w.run("", strings.Fields(args)...)
		if len(w.seen) != 1 || w.seen[0] != want {
			t.Errorf("amqpctl %s\nasked %q\nwant  %q", args, w.seen, want)
		}
	}
}

// Every command that can be run shows how in its help.
func TestHelpHasExamples(t *testing.T) {
	var visit func(c *cli.Command, path string)
	visit = func(c *cli.Command, path string) {
		path += " " + c.Name
		for _, sub := range c.Subcommands {
			visit(sub, path)
		}
		if len(c.Subcommands) == 0 && !c.Hidden && c.Name != "help" && !strings.Contains(c.Description, "Example:\n   amqpctl"+path) {
			t.Errorf("amqpctl%s has no example: %q", path, c.Description)
		}
	}
	for _, c := range newApp(streams{}).Commands {
		visit(c, "")
	}
}
