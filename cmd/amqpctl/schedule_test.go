package main

import (
	"testing"

	"github.com/warrenmq/warren/cmd/amqpctl/internal/exit"
	"github.com/warrenmq/warren/cmd/amqpctl/internal/fakebroker"
)

func TestSchedule(t *testing.T) {
	w := newWorld(t, fakebroker.Config{})
	const list = `{"items":[{"id":"86400500-3","due":86400500,"seconds_left":4,"exchange":"","routing_key":"k","message_id":"m1","payload_bytes":5,"delivery_count":0}],"total":7,"next":"86400500-3"}`
	w.answers["GET /api/queues/%2F/orders/delayed?count=20"] = answer{200, list}
	w.answers["GET /api/exchanges/%2F/later/delayed?after=1-2&count=3"] = answer{200, list}
	const shown = "ID          DUE                       SECONDS LEFT  EXCHANGE     KEY  MESSAGE ID  BYTES\n86400500-3  1970-01-02T00:00:00.500Z             4  amq.default  k    m1              5\n"
	w.want("schedule list orders", exit.OK, shown, "1 of 7 delayed messages of queue \"orders\" in vhost \"/\"\n")
	w.want("schedule ls -x --after 1-2 -n 3 later", exit.OK, shown, "1 of 7 delayed messages of exchange \"later\" in vhost \"/\"\n")
	w.answers["GET /api/queues/%2F/orders/delayed/86400500-3"] = answer{200, `{"id":"86400500-3","due":86400500,"exchange":"x","routing_key":"k","payload_bytes":5,"properties":{},"payload":"hello","payload_encoding":"string"}`}
	out, _, code := w.run("", "schedule", "show", "orders", "86400500-3")
	if code != exit.OK || out == "" {
		t.Errorf("show: %d %q", code, out)
	}
	w.answers["POST /api/queues/%2F/orders/delayed/cancel"] = answer{200, `{"messages":1}`}
	w.want("schedule cancel orders 86400500-3 1-2", exit.OK, "1\n", "")
	w.asked("GET /api/queues/%2F/orders/delayed?count=20", "GET /api/exchanges/%2F/later/delayed?after=1-2&count=3", "GET /api/queues/%2F/orders/delayed/86400500-3",
		`POST /api/queues/%2F/orders/delayed/cancel {"ids":["86400500-3","1-2"]}`)
	w.answers["POST /api/exchanges/%2F/later/delayed/deliver"] = answer{200, `{"messages":12}`}
	w.want("schedule deliver -x --all later", exit.OK, "12\n", "")
	w.asked(`POST /api/exchanges/%2F/later/delayed/deliver {"all":true}`)
	w.want("schedule deliver later", exit.Usage, "", "amqpctl: want either IDs or --all; see `amqpctl schedule deliver --help`\n")
}
