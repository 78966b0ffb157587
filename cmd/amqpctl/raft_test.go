package main

import (
	"fmt"
	"strings"
	"testing"

	"github.com/warrenmq/warren/cmd/amqpctl/internal/exit"
	"github.com/warrenmq/warren/cmd/amqpctl/internal/fakebroker"
)

const replicasJSON = `[
 {"Node Name":"rabbit@one","Raft State":"leader","Membership":"voter","Last Log Index":120,"Last Written":119,"Last Applied":118,"Commit Index":118,"Snapshot Index":40,"Term":3,"Machine Version":1},
 {"Node Name":"rabbit@two","Raft State":"follower","Membership":"voter","Last Log Index":119,"Last Written":119,"Last Applied":117,"Commit Index":117,"Snapshot Index":0,"Term":3,"Machine Version":1},
 {"Node Name":"rabbit@three","Raft State":"nodedown","Membership":"","Last Log Index":"","Last Written":"","Last Applied":"","Commit Index":"","Snapshot Index":"","Term":"","Machine Version":""}]`

func TestRaftStatus(t *testing.T) {
	w := newWorld(t, fakebroker.Config{})
	w.answers["GET /api/queues/quorum/%2F/orders/status"] = answer{200, replicasJSON}
	w.want("raft status orders", exit.OK, ""+
		"NODE          STATE     MEMBERSHIP  TERM  LAST INDEX  WRITTEN  COMMITTED  APPLIED  SNAPSHOT  VERSION\n"+
		"rabbit@one    leader    voter          3         120      119        118      118        40        1\n"+
		"rabbit@two    follower  voter          3         119      119        117      117         0        1\n"+
		"rabbit@three  nodedown  -              -           -        -          -        -         -        -\n", "")
	out, _, code := w.run("", "raft", "status", "orders", "-o", "json")
	if code != exit.OK || !sameJSON(t, out, replicasJSON) {
		t.Errorf("json: code %d, %s", code, out)
	}
	w.answers["GET /api/queues/quorum/v%2F1/t/status"] = answer{503, `{"error":"service_unavailable","reason":"not_quorum_queue: it is not durable"}`}
	w.want("raft show t -p v/1", exit.Unavailable, "", "amqpctl: queue \"t\" in vhost \"v/1\": management API "+strings.TrimPrefix(w.http.URL, "http://")+": not_quorum_queue: it is not durable (HTTP 503)\n")
	w.want("raft status nix", exit.Data, "", "amqpctl: queue \"nix\" in vhost \"/\": Not Found (HTTP 404)\n")
}

func TestRaftAddAndRemove(t *testing.T) {
	w := newWorld(t, fakebroker.Config{})
	w.answers["GET /api/queues/quorum/%2F/orders/status"] = answer{200, replicasJSON}
	w.answers["POST /api/queues/quorum/%2F/orders/replicas/add"] = answer{204, ""}
	w.answers["DELETE /api/queues/quorum/%2F/orders/replicas/delete"] = answer{202, ""}
	w.want("raft add orders rabbit@four", exit.OK, "", "added a replica of queue \"orders\" in vhost \"/\" on node rabbit@four\n")
	w.want("raft add orders rabbit@one", exit.OK, "", "node rabbit@one has a replica of queue \"orders\" in vhost \"/\" already\n")
	w.want("raft add orders rabbit@four -q", exit.OK, "", "")
	w.want("raft remove orders rabbit@two rabbit@three", exit.OK, "", "removed the replica of queue \"orders\" in vhost \"/\" from node rabbit@two\n"+
		"removed the replica of queue \"orders\" in vhost \"/\" from node rabbit@three\n")
	w.want("raft rm orders rabbit@four", exit.OK, "", "node rabbit@four has no replica of queue \"orders\" in vhost \"/\"\n")
	var changes []string
	for _, request := range w.seen {
		if !strings.HasPrefix(request, "GET ") {
			changes = append(changes, request)
		}
	}
	add, remove := "POST /api/queues/quorum/%2F/orders/replicas/add ", "DELETE /api/queues/quorum/%2F/orders/replicas/delete "
	want := []string{add + `{"node":"rabbit@four"}`, add + `{"node":"rabbit@four"}`, remove + `{"node":"rabbit@two"}`, remove + `{"node":"rabbit@three"}`, remove + `{"node":"rabbit@four"}`}
	if fmt.Sprint(changes) != fmt.Sprint(want) {
		t.Errorf("requests\n%s\nwant\n%s", strings.Join(changes, "\n"), strings.Join(want, "\n"))
	}
	api := strings.TrimPrefix(w.http.URL, "http://")
	w.answers["POST /api/queues/quorum/%2F/orders/replicas/add"] = answer{503, `{"error":"service_unavailable","reason":"node_not_running: no such node"}`}
	w.answers["DELETE /api/queues/quorum/%2F/orders/replicas/delete"] = w.answers["POST /api/queues/quorum/%2F/orders/replicas/add"]
	w.want("raft remove orders rabbit@nowhere", exit.Unavailable, "",
		"amqpctl: queue \"orders\" in vhost \"/\", node rabbit@nowhere: management API "+api+": node_not_running: no such node (HTTP 503)\n")
	w.want("raft add orders rabbit@nowhere", exit.Unavailable, "",
		"amqpctl: queue \"orders\" in vhost \"/\", node rabbit@nowhere: management API "+api+": node_not_running: no such node (HTTP 503)\n")
	w.want("raft add orders rabbit@one rabbit@nowhere", exit.Partial, "", "node rabbit@one has a replica of queue \"orders\" in vhost \"/\" already\n"+
		"amqpctl: queue \"orders\" in vhost \"/\", node rabbit@nowhere: management API "+api+": node_not_running: no such node (HTTP 503)\n")
	w.answers["DELETE /api/queues/quorum/%2F/orders/replicas/delete"] = answer{401, `{"error":"not_authorised","reason":"Not administrator user"}`}
	w.answers["GET /api/whoami"] = answer{200, `{}`}
	w.want("raft remove orders rabbit@two", exit.Denied, "", "amqpctl: queue \"orders\" in vhost \"/\", node rabbit@two: Not administrator user (HTTP 401)\n")
	w.want("raft add nix rabbit@two", exit.Data, "", "amqpctl: queue \"nix\" in vhost \"/\": Not Found (HTTP 404)\n")
}

// TestStatusWarnsOfReplicas: what the overview tells of replicas becomes warnings.
func TestStatusWarnsOfReplicas(t *testing.T) {
	w := newWorld(t, fakebroker.Config{})
	w.answers["GET /api/nodes"] = answer{200, `[{"name":"rabbit@one","running":true},{"name":"rabbit@two","running":true}]`}
	for replication, want := range map[string]string{
		`{"nodes":3,"nodes_running":3,"queues_short":0,"queues_wanting":0,"queues_minority":0,"queues_down":0}`: "No alarms, no warnings.\n",
		`{"nodes":2,"nodes_running":2}`: "WARNING  with two nodes a queue has one replica; add a third node\n",
		`{"nodes":5,"queues_short":1200,"queues_short_named":[{"name":"a","vhost":"/"},{"name":"b\u001b","vhost":"v"}],"queues_wanting":1,"queues_wanting_named":[{"name":"c","vhost":"/"}],` +
			`"queues_minority":1,"queues_minority_named":[{"name":"d","vhost":"/"}],"queues_down":2,"queues_down_named":[{"name":"e","vhost":"/"},{"name":"f","vhost":"/"}]}`: "" +
			"WARNING  1,200 queues have fewer replicas than due, to be added as soon as enough nodes are up: a in /, b\\x1b in v, ...\n" +
			"WARNING  1 queue has fewer replicas than declared with, for the cluster is too small: c in /\n" +
			"ALARM  1 queue has too few replicas up to serve: d in /\n" +
			"ALARM  2 queues are down: e in /, f in /\n",
	} {
		w.answers["GET /api/overview"] = answer{200, strings.Replace(overviewJSON, `{"cluster_name"`, `{"replication":`+replication+`,"cluster_name"`, 1)}
		out, _, code := w.run("", "status")
		if _, warned, _ := strings.Cut(out, "rabbit@two  running"); code != exit.OK || warned[strings.Index(warned, "\n\n")+2:] != want {
			t.Errorf("%s\n code %d, out\n%s\nwant\n%s", replication, code, out, want)
		}
	}
}
