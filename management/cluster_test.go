package management

import (
	"encoding/json"
	"fmt"
	"net/url"
	"slices"
	"strings"
	"testing"
	"time"

	client "github.com/rabbitmq/amqp091-go"
)

// into reads the answer to a GET.
func (n *realNode) into(path string, v any) {
	n.t.Helper()
	if err := json.Unmarshal(n.want(200, "GET", path, ""), v); err != nil {
		n.t.Fatal(path, err)
	}
}

// until waits until something is so, and tells how long it took.
func until(t *testing.T, what string, so func() bool) {
	t.Helper()
	began := time.Now()
	tick := time.NewTicker(20 * time.Millisecond)
	defer tick.Stop()
	for !so() {
		if <-tick.C; time.Since(began) > 30*time.Second {
			t.Fatalf("not in 30 s: %s", what)
		}
	}
	t.Logf("%s after %v", what, time.Since(began).Round(time.Millisecond))
}

// seenQueue is what a node's API says of a queue.
type seenQueue struct {
	Name, Leader, State string
	Members, Online     []string
	Messages, Consumers int
}

func (n *realNode) queues() map[string]seenQueue {
	var list []seenQueue
	n.into("/api/queues/a", &list)
	of := make(map[string]seenQueue)
	for _, q := range list {
		of[q.Name] = q
	}
	return of
}

// replicaRow is a row of a queue's replicas.
type replicaRow struct {
	Node    string `json:"Node Name"`
	State   string `json:"Raft State"`
	Applied any    `json:"Last Applied"`
}

func (n *realNode) replicas(queue string) (list []replicaRow) {
	n.into("/api/queues/quorum/a/"+queue+"/status", &list)
	return list
}

// TestRealCluster: three nodes; each shows what all have, and changes what another one has.
func TestRealCluster(t *testing.T) {
	nodes := newRealCluster(t, 3)
	one, two, three := nodes[0], nodes[1], nodes[2]
	one.want(201, "PUT", "/api/queues/a/alone", `{"durable":true,"arguments":{"x-quorum-initial-group-size":1}}`)
	one.want(201, "PUT", "/api/queues/a/wide", `{"durable":true}`)
	for _, n := range nodes {
		until(t, n.name+" knows the queues", func() bool { return len(n.queues()) == 2 })
	}
	for i := range 5 {
		for _, q := range []string{"alone", "wide"} {
			two.want(200, "POST", "/api/exchanges/a/amq.default/publish", fmt.Sprintf(`{"routing_key":%q,"payload":"%d","payload_encoding":"string","properties":{}}`, q, i))
		}
	}
	for _, n := range nodes { // asked for alone, a queue is exact at once
		var q seenQueue
		if n.into("/api/queues/a/alone", &q); q.Messages != 5 || q.Leader != one.name || !slices.Equal(q.Members, []string{one.name}) {
			t.Errorf("%s shows the queue as %+v", n.name, q)
		}
	}
	for _, n := range nodes {
		until(t, n.name+" lists the queues as they are", func() bool {
			alone, wide := n.queues()["alone"], n.queues()["wide"]
			return alone.Messages == 5 && alone.Leader == one.name && alone.State == "running" && wide.Messages == 5 && len(wide.Members) == 3 && len(wide.Online) == 3
		})
	}
	t.Run("lists", func(t *testing.T) { realLists(t, nodes) })
	t.Run("replicas", func(t *testing.T) { realReplicas(t, nodes) })
	two.stop()
	for _, n := range []*realNode{one, three} {
		until(t, n.name+" shows that a node stopped", func() bool {
			var list []struct {
				Name    string
				Running bool
			}
			n.into("/api/nodes", &list)
			return len(list) == 3 && list[0].Running && !list[1].Running && list[2].Running
		})
		until(t, n.name+" shows who is left", func() bool {
			wide := n.queues()["wide"]
			return wide.State == "running" && len(wide.Members) == 3 && !slices.Contains(wide.Online, two.name) && wide.Leader != two.name && wide.Messages == 5
		})
	}
	one.stop() // the queue with one replica is gone, the other has too few
	until(t, "the last node shows what it cannot serve", func() bool {
		q := three.queues()
		return q["alone"].State == "down" && q["alone"].Messages == 5 && q["wide"].State == "minority"
	})
}

// realLists looks at connections, channels, consumers, nodes and sums from nodes that do not have them.
func realLists(t *testing.T, nodes []*realNode) {
	one, two, three := nodes[0], nodes[1], nodes[2]
	conn, err := client.Dial(two.amqp)
	if err != nil {
		t.Fatal(err)
	}
	defer conn.Close()
	ended := conn.NotifyClose(make(chan *client.Error, 1))
	ch, err := conn.Channel()
	if err != nil {
		t.Fatal(err)
	}
	if _, err := ch.Consume("alone", "tag", false, false, false, false, nil); err != nil {
		t.Fatal(err)
	}
	type row struct {
		Name, Node string
		Details    struct{ Node string } `json:"channel_details"`
	}
	var conns, channels, consumers []row
	for _, n := range []*realNode{one, three} {
		until(t, n.name+" lists the client of another node", func() bool {
			n.into("/api/connections", &conns)
			n.into("/api/channels", &channels)
			n.into("/api/consumers", &consumers)
			return len(conns) == 1 && len(channels) == 1 && len(consumers) == 1
		})
		if conns[0].Node != two.name || channels[0].Node != two.name || consumers[0].Details.Node != two.name {
			t.Errorf("%s shows %+v %+v %+v", n.name, conns, channels, consumers)
		}
		var strict []map[string]any
		n.into("/api/nodes", &strict)
		for _, node := range strict {
			for _, key := range strings.Fields("os_pid uptime mem_limit fd_total proc_total disk_free_limit rates_mode partitions applications connection_created_details") {
				if _, ok := node[key]; !ok {
					t.Errorf("%s does not know %s of %v", n.name, key, node["name"])
				}
			}
		}
		until(t, n.name+" knows the sums", func() bool {
			var o struct {
				Objects struct{ Connections, Channels, Consumers, Queues int } `json:"object_totals"`
				Queues  struct{ Messages int }                                 `json:"queue_totals"`
				Stats   struct{ Publish int }                                  `json:"message_stats"`
			}
			n.into("/api/overview", &o)
			return o.Objects.Connections == 1 && o.Objects.Channels == 1 && o.Objects.Consumers == 1 && o.Objects.Queues == 2 && o.Queues.Messages == 10 && o.Stats.Publish == 10
		})
	}
	one.want(204, "DELETE", "/api/connections/"+url.PathEscape(conns[0].Name), "")
	select {
	case e := <-ended:
		if e == nil || e.Code != 320 {
			t.Errorf("the client was told %v", e)
		}
	case <-time.After(20 * time.Second):
		t.Error("the connection is still open")
	}
	until(t, "the connection is gone", func() bool {
		status, _ := one.do("DELETE", "/api/connections/"+url.PathEscape(conns[0].Name), "")
		return status == 404
	})
}

// realReplicas adds and removes a replica through a node that neither leads nor has one.
func realReplicas(t *testing.T, nodes []*realNode) {
	one, two, three := nodes[0], nodes[1], nodes[2]
	const path = "/api/queues/quorum/a/alone"
	if rows := three.replicas("alone"); len(rows) != 1 || rows[0].Node != one.name || rows[0].State != "leader" {
		t.Fatalf("before: %+v", rows)
	}
	body := fmt.Sprintf(`{"node":%q}`, two.name)
	three.want(204, "POST", path+"/replicas/add", body)
	for _, n := range nodes {
		until(t, n.name+" shows the new replica", func() bool {
			rows := n.replicas("alone")
			return len(rows) == 2 && rows[0].State == "leader" && rows[1].Node == two.name && rows[1].State == "follower" && rows[0].Applied == rows[1].Applied
		})
		until(t, n.name+" lists the new member", func() bool { return len(n.queues()["alone"].Online) == 2 })
	}
	three.want(204, "POST", path+"/replicas/add", body)
	three.want(503, "POST", path+"/replicas/add", `{"node":"rabbit@nowhere"}`)
	three.want(202, "DELETE", path+"/replicas/delete", body)
	for _, n := range nodes {
		until(t, n.name+" does not show it any more", func() bool { return len(n.replicas("alone")) == 1 && len(n.queues()["alone"].Members) == 1 })
	}
	three.want(202, "DELETE", path+"/replicas/delete", body)
	three.want(503, "DELETE", path+"/replicas/delete", fmt.Sprintf(`{"node":%q}`, one.name))
	if rows := two.replicas("wide"); len(rows) != 3 {
		t.Errorf("the other queue has %+v", rows)
	}
}
