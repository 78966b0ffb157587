package management

import (
	"context"
	"encoding/json"
	"fmt"
	"log/slog"
	"net"
	"net/http"
	"net/http/httptest"
	"net/url"
	"os"
	"slices"
	"strconv"
	"strings"
	"sync"
	"testing"
	"time"

	client "github.com/rabbitmq/amqp091-go"

	"github.com/warrenmq/warren/broker"
	"github.com/warrenmq/warren/internal/alarm"
	"github.com/warrenmq/warren/quorum"
	"github.com/warrenmq/warren/storage"
	"github.com/warrenmq/warren/storage/datadir"
)

// realNode is a node without its process: real queues, a real broker, the API over sockets.
type realNode struct {
	t         *testing.T
	name      string
	url, amqp string
	host      *quorum.Host
	s         *Server
	stop      func()
}

// newRealNode is a node that runs alone.
func newRealNode(t *testing.T) *realNode {
	t.Helper()
	return startRealNode(t, quorum.Config{Name: "rabbit@test", Address: "127.0.0.1:1"})
}

// newRealCluster is a cluster of n nodes in this process.
func newRealCluster(t *testing.T, n int) []*realNode {
	t.Helper()
	var nodes []*realNode
	var first string
	for i := range n {
		l, err := net.Listen("tcp", "127.0.0.1:0")
		if err != nil {
			t.Fatal(err)
		}
		cfg := quorum.Config{Name: fmt.Sprint("rabbit@n", i+1), Address: l.Addr().String(), Cluster: quorum.Cluster{Listener: l, Secret: []byte("secret")}}
		if i == 0 {
			first = cfg.Address
		} else {
			cfg.Cluster.Join = []string{first}
		}
		nodes = append(nodes, startRealNode(t, cfg))
	}
	return nodes
}

func startRealNode(t *testing.T, cfg quorum.Config) *realNode {
	t.Helper()
	log := slog.New(slog.DiscardHandler)
	dir, err := datadir.Open(storage.OS, t.TempDir())
	if err != nil {
		t.Fatal(err)
	}
	ctx, cancel := context.WithTimeout(t.Context(), time.Minute)
	defer cancel()
	cfg.Dir, cfg.Founding, cfg.Log = dir, people(), log
	host, err := quorum.Open(ctx, cfg)
	if err != nil {
		t.Fatal(err)
	}
	b := broker.New(broker.Options{Host: broker.On(host), Log: log})
	l, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	served := make(chan error, 1)
	go func() { served <- b.Serve(l, nil) }()
	watch := alarm.Start(alarm.Options{Dir: dir.Path(), Changed: host.SetAlarms, Log: log})
	s := New(Options{
		Host: host, Broker: b, Watch: watch, Log: log, Version: "0.1.0", DataDir: dir.Path(), LoopbackUsers: []string{"guest"},
		Listeners: func() []Listener {
			return []Listener{{Protocol: "amqp", IP: "127.0.0.1", Port: 5672}, {Protocol: "http", IP: "127.0.0.1", Port: 15672}}
		},
	})
	web := httptest.NewUnstartedServer(nil)
	web.Config = NewHTTPServer(s.Handler(), log)
	web.Start()
	n := &realNode{t: t, name: cfg.Name, url: web.URL, amqp: "amqp://guest:" + password + "@" + l.Addr().String() + "/a", host: host, s: s}
	n.stop = sync.OnceFunc(func() {
		web.Close()
		s.Close()
		watch.Close()
		ctx, cancel := context.WithTimeout(context.Background(), time.Minute)
		defer cancel()
		if err := b.Shutdown(ctx); err != nil {
			t.Error(err)
		}
		if err := <-served; err != nil {
			t.Error(err)
		}
		host.Close()
		if err := dir.Close(); err != nil {
			t.Error(err)
		}
	})
	t.Cleanup(n.stop)
	return n
}

// do sends a request as guest and returns status and body.
func (n *realNode) do(method, path, body string) (int, []byte) {
	n.t.Helper()
	r, err := http.NewRequestWithContext(n.t.Context(), method, n.url+path, strings.NewReader(body))
	if err != nil {
		n.t.Fatal(err)
	}
	r.SetBasicAuth("guest", password)
	resp, err := http.DefaultClient.Do(r)
	if err != nil {
		n.t.Fatal(err)
	}
	defer resp.Body.Close()
	var data json.RawMessage
	if resp.ContentLength != 0 {
		if err := json.NewDecoder(resp.Body).Decode(&data); err != nil {
			n.t.Fatalf("%s %s: %v", method, path, err)
		}
	}
	return resp.StatusCode, data
}

func (n *realNode) want(status int, method, path, body string) []byte {
	n.t.Helper()
	got, data := n.do(method, path, body)
	if got != status {
		n.t.Fatalf("%s %s: %d %s, want %d", method, path, got, data, status)
	}
	return data
}

// busy makes a connection with two channels, consumers and traffic, as stood behind the recorded answers.
func (n *realNode) busy() {
	t := n.t
	t.Helper()
	conn, err := client.DialConfig(n.amqp, client.Config{Properties: client.Table{"connection_name": "probe", "product": "p"}})
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = conn.Close() })
	check := func(err error) {
		t.Helper()
		if err != nil {
			t.Fatal(err)
		}
	}
	ch, err := conn.Channel()
	check(err)
	_, err = ch.QueueDeclare("live", true, false, false, false, nil)
	check(err)
	_, err = ch.QueueDeclare("livq", true, false, false, false, client.Table{"x-queue-type": "quorum"})
	check(err)
	_, err = ch.QueueDeclare("livx", false, false, true, false, nil)
	check(err)
	check(ch.ExchangeDeclare("livex", "topic", true, false, false, false, client.Table{"x": "y"}))
	check(ch.QueueBind("live", "a.*", "livex", false, client.Table{"h": int32(1)}))
	check(ch.Qos(5, 0, false))
	check(ch.Confirm(false))
	deliveries, err := ch.Consume("live", "tag1", false, false, false, false, client.Table{"x-priority": int32(3)})
	check(err)
	for range 10 {
		confirm, err := ch.PublishWithDeferredConfirmWithContext(t.Context(), "livex", "a.b", false, false, client.Publishing{DeliveryMode: 2, Body: []byte("x")})
		check(err)
		if ok, err := confirm.WaitContext(t.Context()); !ok || err != nil {
			t.Fatal("not confirmed", err)
		}
	}
	check((<-deliveries).Ack(false))
	_, err = ch.Consume("livq", "tag2", false, false, false, false, nil)
	check(err)
	_, err = conn.Channel()
	check(err)
}

// recorded is an answer of RabbitMQ 3.10.8: its status, and the JSON types of all keys by path. "." is the whole, [] an element.
type recorded struct {
	Status int
	Types  map[string]string
}

// opaque are objects whose keys are data, or Erlang's own.
var opaque = []string{
	"client_properties", "arguments", "open_files", "cluster_state", "backing_queue_status", "properties", "socket_opts", "ra_open_file_metrics", "applications", "samples",
	"headers", "ssl_opts",
}

// absent are the keys that are left out on purpose.
var absent = map[string]string{
	"exchange_types[].internal_purpose":    "federation's own exchange type is not there",
	"config_files[]":                       "the node was configured without a file",
	"sample_retention_policies.global[]":   "no samples older than seconds are kept",
	"sample_retention_policies.basic[]":    "no samples older than seconds are kept",
	"sample_retention_policies.detailed[]": "no samples older than seconds are kept",
}

// TestSupersetOfRabbitMQ compares with what RabbitMQ 3.10.8 answered in the same situation (testdata/rabbitmq-3.10.8.json; facts: paths and types of keys).
func TestSupersetOfRabbitMQ(t *testing.T) {
	data, err := os.ReadFile("testdata/rabbitmq-3.10.8.json")
	if err != nil {
		t.Fatal(err)
	}
	var want map[string]recorded
	if err := json.Unmarshal(data, &want); err != nil {
		t.Fatal(err)
	}
	n := newRealNode(t)
	n.busy()
	n.want(201, "PUT", "/api/queues/a/q4", `{}`)
	n.want(200, "POST", "/api/exchanges/a/amq.default/publish", `{"routing_key":"q4","payload":"a","payload_encoding":"string","properties":{"headers":{"a":1}}}`)
	var conns []struct{ Name string }
	if err := json.Unmarshal(n.want(200, "GET", "/api/connections", ""), &conns); err != nil || len(conns) != 1 {
		t.Fatal(conns, err)
	}
	var bindings []struct {
		Key string `json:"properties_key"`
	}
	if err := json.Unmarshal(n.want(200, "GET", "/api/bindings/a/e/livex/q/live", ""), &bindings); err != nil || len(bindings) != 1 {
		t.Fatal(bindings, err)
	}
	conn := url.PathEscape(conns[0].Name)
	paths := map[string]string{
		"overview": "overview", "nodes": "nodes", "node": "nodes/rabbit@test", "whoami": "whoami", "cluster name": "cluster-name", "connections": "connections",
		"connection": "connections/" + conn, "connection channels": "connections/" + conn + "/channels", "channels": "vhosts/a/channels", "channel": "channels/" + conn + "%20(1)",
		"consumers of a virtual host": "consumers/a", "exchanges": "exchanges/a", "exchange": "exchanges/a/livex", "queue classic": "queues/a/live", "queue quorum": "queues/a/livq",
		"queue page": "queues?page=1&page_size=500", "queue without stats": "queues/a?disable_stats=true&enable_queue_totals=true", "bindings": "bindings/a",
		"binding": "bindings/a/e/livex/q/live/" + url.PathEscape(bindings[0].Key), "queue bindings": "queues/a/live/bindings", "vhosts": "vhosts", "vhost": "vhosts/a", "users": "users",
		"user": "users/guest", "permissions": "permissions", "permission": "permissions/a/guest", "aliveness test": "aliveness-test/a", "alarms": "health/checks/alarms",
		"not found": "queues/a/nope", "page out of range": "queues/a?page=900", "invalid page": "queues/a?page=0",
	}
	for name, r := range want {
		path, ok := paths[name]
		method, body := "GET", ""
		if name == "get" {
			path, method, body, ok = "queues/a/q4/get", "POST", `{"ackmode":"ack_requeue_false","count":1,"encoding":"auto"}`, true
		}
		if !ok {
			t.Errorf("no path for the recorded answer %q", name)
			continue
		}
		t.Run(name, func(t *testing.T) {
			status, data := n.do(method, "/api/"+path, body)
			if status != r.Status {
				t.Fatalf("%s: %d, want %d", path, status, r.Status)
			}
			var v any
			if err := json.Unmarshal(data, &v); err != nil {
				t.Fatal(err)
			}
			got := make(map[string][]string)
			flatten(v, "", got)
			compareTypes(t, r.Types, got)
		})
	}
}

func compareTypes(t *testing.T, want map[string]string, got map[string][]string) {
	for path, types := range want {
		ours, ok := got[path]
		switch {
		case !ok && absent[strings.TrimPrefix(path, "[].")] != "":
		case !ok:
			t.Errorf("%s (%s) is missing", path, types)
		case !compatible(strings.Split(types, "|"), ours):
			t.Errorf("%s is %v, want %s", path, ours, types)
		}
	}
}

// compatible tells whether readers of the one can read the other. RabbitMQ writes [] for an empty object, and null or "" for what is not there.
func compatible(want, ours []string) bool {
	for _, o := range ours {
		switch {
		case slices.Contains(want, o), slices.Contains(want, "null"), o == "null" && slices.Contains(want, "string"), o == "object" && slices.Contains(want, "array"):
		default:
			return false
		}
	}
	return true
}

func flatten(v any, path string, out map[string][]string) {
	key := path
	if key == "" {
		key = "."
	}
	kind := "null"
	last := strings.ReplaceAll(path[strings.LastIndexByte(path, '.')+1:], "[]", "")
	switch v := v.(type) {
	case bool:
		kind = "bool"
	case float64:
		kind = "number"
	case string:
		kind = "string"
	case []any:
		kind = "array"
		if !slices.Contains(opaque, last) {
			for _, e := range v {
				flatten(e, path+"[]", out)
			}
		}
	case map[string]any:
		kind = "object"
		if !slices.Contains(opaque, last) {
			for k, e := range v {
				next := k
				if path != "" {
					next = path + "." + k
				}
				flatten(e, next, out)
			}
		}
	}
	if !slices.Contains(out[key], kind) {
		out[key] = append(out[key], kind)
	}
}

// TestRealMessages drives real queues: what is published is got, in order, as often as it is put back; the counts of one queue are exact at once.
func TestRealMessages(t *testing.T) {
	n := newRealNode(t)
	n.want(201, "PUT", "/api/queues/a/q", `{"durable":true}`)
	for _, text := range []string{"one", "two", "three"} {
		n.want(200, "POST", "/api/exchanges/a/amq.default/publish", `{"routing_key":"q","payload":"`+text+`","payload_encoding":"string","properties":{"delivery_mode":2}}`)
	}
	type message struct {
		Payload     string
		Redelivered bool
		Left        int `json:"message_count"`
	}
	get := func(mode string, count string) []message {
		t.Helper()
		var list []message
		if err := json.Unmarshal(n.want(200, "POST", "/api/queues/a/q/get", `{"ackmode":"`+mode+`","count":`+count+`,"encoding":"auto"}`), &list); err != nil {
			t.Fatal(err)
		}
		return list
	}
	if got, want := get("ack_requeue_true", "2"), []message{{"one", false, 2}, {"two", false, 1}}; !slices.Equal(got, want) {
		t.Fatalf("got %v, want %v", got, want)
	}
	if got, want := get("ack_requeue_false", "1"), []message{{"one", true, 2}}; !slices.Equal(got, want) {
		t.Fatalf("got %v, want %v", got, want)
	}
	var q struct {
		Messages, MessagesReady, Persistent int
		Stats                               struct{ Publish, Get, Ack int } `json:"message_stats"`
	}
	if err := json.Unmarshal(n.want(200, "GET", "/api/queues/a/q", ""), &q); err != nil {
		t.Fatal(err)
	}
	if q.Messages != 2 || q.Stats.Publish != 3 || q.Stats.Get != 3 || q.Stats.Ack != 1 {
		t.Fatalf("the queue's numbers are %+v", q)
	}
	// More than any batch: each message once, in order, though all go back.
	for i := range 40 {
		n.want(200, "POST", "/api/exchanges/a/amq.default/publish", fmt.Sprintf(`{"routing_key":"q","payload":"%d","payload_encoding":"string","properties":{}}`, i))
	}
	var texts []string
	for _, m := range get("ack_requeue_true", "100") {
		texts = append(texts, m.Payload)
	}
	want := []string{"two", "three"}
	for i := range 40 {
		want = append(want, strconv.Itoa(i))
	}
	if !slices.Equal(texts, want) {
		t.Errorf("got %v", texts)
	}
	n.want(400, "DELETE", "/api/queues/a/q?if-empty=true", "")
	n.want(204, "DELETE", "/api/queues/a/q/contents", "")
	if got := get("ack_requeue_true", "10"); len(got) != 0 {
		t.Fatalf("after the purge: %v", got)
	}
	n.want(204, "DELETE", "/api/queues/a/q?if-empty=true", "")
	n.want(404, "GET", "/api/queues/a/q", "")
	n.want(404, "POST", "/api/queues/a/q/get", `{"ackmode":"ack_requeue_true","count":1,"encoding":"auto"}`)
}

// TestRealClose closes a client's connection by the name in the list; the client is told why.
func TestRealClose(t *testing.T) {
	n := newRealNode(t)
	conn, err := client.Dial(n.amqp)
	if err != nil {
		t.Fatal(err)
	}
	ended := conn.NotifyClose(make(chan *client.Error, 1))
	var conns []struct{ Name string }
	if err := json.Unmarshal(n.want(200, "GET", "/api/connections", ""), &conns); err != nil || len(conns) != 1 {
		t.Fatal(conns, err)
	}
	n.want(204, "DELETE", "/api/connections/"+url.PathEscape(conns[0].Name), "")
	select {
	case e := <-ended:
		if e.Code != 320 || e.Reason != "CONNECTION_FORCED - Closed via management plugin" {
			t.Fatalf("the client was told %v", e)
		}
	case <-time.After(20 * time.Second):
		t.Fatal("the connection is still open")
	}
}

// strict are the keys without which clients with typed decoders refuse a whole list (rabbitmq_http_client), divide by zero (Nagios) or do not start (NServiceBus).
var strict = map[string]string{
	"nodes": "name=string uptime=number run_queue=number processors=number os_pid=string fd_total=number proc_total=number mem_limit=number mem_alarm=bool disk_free_limit=number " +
		"disk_free_alarm=bool rates_mode=string enabled_plugins=array being_drained=bool sockets_total=number partitions=array",
	"vhosts/a/connections": "name=string node=string protocol=string user=string connected_at=number client_properties=object",
	"channels": "number=number name=string connection_details=object vhost=string state=string consumer_count=number confirm=bool prefetch_count=number " +
		"messages_unacknowledged=number messages_unconfirmed=number",
	"consumers":             "consumer_tag=string active=bool ack_required=bool prefetch_count=number exclusive=bool arguments=object consumer_timeout=number queue=object",
	"queues/a":              "name=string vhost=string type=string durable=bool auto_delete=bool exclusive=bool arguments=object effective_policy_definition=object message_stats=object",
	"users":                 "name=string tags=array password_hash=string",
	"overview":              "queue_totals=object object_totals=object message_stats=object churn_rates=object rabbitmq_version=string erlang_version=string cluster_tags=object node_tags=object",
	"queues/a?page=1":       "total_count=number item_count=number filtered_count=number page=number page_size=number page_count=number items=array",
	"queues/a/live":         "garbage_collection=object consumer_details=array incoming=array deliveries=array open_files=object owner_pid_details=object",
	"exchanges/a/livex":     "arguments=object message_stats=object incoming=array outgoing=array",
	"vhosts/a":              "name=string description=string tags=array default_queue_type=string metadata=object tracing=bool cluster_state=object protected_from_deletion=bool",
	"queues/a?columns=nope": "",
}

func TestStrictReaders(t *testing.T) {
	n := newRealNode(t)
	n.busy()
	for path, keys := range strict {
		var v any
		if err := json.Unmarshal(n.want(200, "GET", "/api/"+path, ""), &v); err != nil {
			t.Fatal(err)
		}
		rows, isList := v.([]any)
		if !isList {
			rows = []any{v}
		}
		if len(rows) == 0 {
			t.Errorf("%s: no row to look at", path)
		}
		for _, row := range rows {
			object, ok := row.(map[string]any)
			if !ok {
				t.Errorf("%s: a row is %T", path, row)
				continue
			}
			for _, key := range strings.Fields(keys) {
				name, kind, _ := strings.Cut(key, "=")
				got := make(map[string][]string)
				flatten(object[name], ".", got)
				if value, there := object[name]; !there || !slices.Contains(got["."], kind) {
					t.Errorf("%s: %s is %v, want a %s", path, name, value, kind)
				}
			}
		}
	}
}
