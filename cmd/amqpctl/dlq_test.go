package main

import (
	"fmt"
	"net/http"
	"testing"

	"github.com/warrenmq/warren/cmd/amqpctl/internal/exit"
	"github.com/warrenmq/warren/cmd/amqpctl/internal/fakebroker"
)

func TestDlqList(t *testing.T) {
	w := newWorld(t, fakebroker.Config{})
	w.lists = map[string]string{
		"/api/dead-letters/%2F": `[{"name":"dead","vhost":"/","messages_ready":12,"sampled":3,"sources":[{"queue":"orders","reason":"rejected","messages":2},{"queue":"","reason":"","messages":1}]}]`,
		"/api/redrives":         `[{"id":"1-2-3","kind":"redrive","vhost":"/","queue":"dead","to":null,"state":"running","moved":5,"skipped":1,"reason":"a target is full"}]`,
	}
	w.want("dlq ls", exit.OK, "NAME  READY  DIED IN (OF THE FIRST 1000)\ndead     12  orders rejected: 2, no death: 1\n", "")
	w.want("dlq jobs", exit.OK, "ID     KIND     VHOST  QUEUE  TO  STATE    MOVED  SKIPPED  REASON\n1-2-3  redrive  /      dead   -   running      5        1  a target is full\n", "")
}

func TestDlqShow(t *testing.T) {
	w := newWorld(t, fakebroker.Config{})
	w.answers["POST /api/queues/%2F/dead/peek"] = answer{200, `{"items":[
	 {"position":0,"exchange":"dlx","routing_key":"dead","properties":{"message_id":"m1","headers":{"x-death":[{"queue":"orders","reason":"rejected","count":3,"time":86400,"exchange":"x","routing-keys":["new"]},{"queue":"a"}]}},"payload":"hello","payload_encoding":"string"},
	 {"position":1,"exchange":"","routing_key":"k","properties":{},"payload":"there","payload_encoding":"string"}],"total":7}`}
	w.want("dlq show dead -n 2", exit.OK, "POS  DIED IN  REASON    TIMES  SINCE                 KEY  MESSAGE ID  PAYLOAD\n"+
		"  0  orders   rejected      3  1970-01-02T00:00:00Z  new  m1          hello\n  1  -                                               k                there\n", "2 of 7 messages of queue \"dead\" in vhost \"/\"\n")
	w.asked(`POST /api/queues/%2F/dead/peek {"count":2,"encoding":"auto","offset":0,"truncate":200}`)
	w.want("dlq show dead -n 0", exit.Usage, "", "amqpctl: --offset must not be negative, --count be at least 1; see `amqpctl dlq show --help`\n")
}

// job is what the API says of a redrive.
func job(state, reason, rest string) string {
	return fmt.Sprintf(`{"id":"1-2-3","state":%q,"reason":%q,"scanned":9,"moved":4,"skipped":2%s}`, state, reason, rest)
}

const jobResult = `,"targets":[{"queue":"orders","messages":4}],"left":[{"queue":"","why":"no_death","messages":1},{"queue":"gone","why":"queue_gone","messages":1}]`

func TestDlqRedrive(t *testing.T) {
	w := newWorld(t, fakebroker.Config{})
	w.answers["POST /api/queues/%2F/dead/redrive"] = answer{200, job("done", "", jobResult)}
	left := "orders           4\n-                      1  they did not die; name a queue with --to\ngone                   1  there is no such queue\n"
	w.want("dlq redrive dead --dry-run", exit.OK, "TO      WOULD MOVE  LEFT  WHY\n"+left, "")
	w.asked(`POST /api/queues/%2F/dead/redrive {"dry_run":true}`)
	w.want("dlq redrive dead --dry-run --routing-key=", exit.OK, "TO      WOULD MOVE  LEFT  WHY\n"+left, "")
	w.asked(`POST /api/queues/%2F/dead/redrive {"dry_run":true,"routing_key":""}`)
	w.want("dlq redrive dead --to x --from orders --reason expired --routing-key k --message-id 1 --message-id 2 --older-than 2m --limit 7 --rate 3 -q", exit.OK,
		"TO      MOVED  LEFT  WHY\norders      4\n-                 1  they did not die; name a queue with --to\ngone              1  there is no such queue\n", "")
	w.asked(`POST /api/queues/%2F/dead/redrive {"from":"orders","limit":7,"message_ids":["1","2"],"older_than":120,"rate":3,"reason":"expired","routing_key":"k","to":"x"}`)

	w.answers["POST /api/queues/%2F/dead/redrive"] = answer{200, job("running", "a node is away", `,"pending":2,"pending_reason":"a target is full"`)}
	w.answers["GET /api/redrives/1-2-3"] = answer{200, job("done", "", jobResult)}
	out, err, code := w.run("", "dlq", "redrive", "dead")
	if code != exit.OK || err != "1-2-3: 4 moved, 2 skipped, 9 looked at; it waits: a node is away\n" || out == "" {
		t.Errorf("%d %q %q", code, out, err)
	}
	w.want("dlq redrive dead --no-wait", exit.OK, "", "job 1-2-3 goes on: `amqpctl dlq jobs` shows it, `amqpctl dlq stop 1-2-3` ends it\n2 messages are still on their way: a target is full\n")
	w.answers["GET /api/redrives/1-2-3"] = answer{200, job("failed", "planted", "")}
	w.want("dlq redrive dead -q", exit.Unavailable, "", "amqpctl: job 1-2-3 failed: planted\n")
	w.answers["POST /api/queues/%2F/dead/redrive"] = answer{200, job("done", "", "")}
	w.want("dlq redrive dead", exit.OK, "", "no message was chosen, of 9\n")
	w.want("dlq redrive dead --older-than 5ms", exit.Usage, "", "amqpctl: --older-than must be at least 1s; see `amqpctl dlq redrive --help`\n")
	w.want("dlq redrive dead --to=", exit.Usage, "", "amqpctl: --to is empty; see `amqpctl dlq redrive --help`\n")
	w.want("dlq redrive dead --from=", exit.Usage, "", "amqpctl: --from is empty; see `amqpctl dlq redrive --help`\n")
	w.want("queue move dead x --message-id=", exit.Usage, "", "amqpctl: --message-id is empty; see `amqpctl queue move --help`\n")
	w.want("dlq redrive none", exit.Data, "", "amqpctl: queue \"none\" in vhost \"/\": Not Found (HTTP 404)\n")
}

func TestDlqStopAndQueueMove(t *testing.T) {
	w := newWorld(t, fakebroker.Config{})
	w.answers["DELETE /api/redrives/1-2-3"] = answer{http.StatusNoContent, ""}
	w.answers["POST /api/queues/%2F/q/move"] = answer{200, job("done", "", `,"targets":[{"queue":"r","messages":4}]`)}
	w.want("dlq stop 1-2-3", exit.OK, "", "stopped job 1-2-3\n")
	w.want("dlq stop x", exit.Data, "", "amqpctl: job x: Not Found (HTTP 404)\n")
	w.want("queue move q r --limit 4", exit.OK, "TO  MOVED  LEFT  WHY\nr       4\n", "")
	w.asked("DELETE /api/redrives/1-2-3", "DELETE /api/redrives/x", `POST /api/queues/%2F/q/move {"limit":4,"to":"r"}`)
	w.want("queue move q", exit.Usage, "", "amqpctl: want two queues, QUEUE TO; see `amqpctl queue move --help`\n")
	w.want("dlq stop", exit.Usage, "", "amqpctl: want the id of a job; `amqpctl dlq jobs` lists them; see `amqpctl dlq stop --help`\n")
}

func TestQueueDraining(t *testing.T) {
	w := newWorld(t, fakebroker.Config{})
	w.lists = map[string]string{"/api/draining": `[{"id":"1031","name":"orders","vhost":"/","messages_dlx":7,"dlx_pending_reason":"a target is full"}]`}
	w.answers["DELETE /api/draining/1031"] = answer{200, `{"name":"orders","vhost":"/","messages_dropped":7,"leader":"rabbit@n1"}`}
	w.answers["DELETE /api/draining/1032"] = answer{200, `{"name":"lost","vhost":"/","messages_dropped":3,"leader":""}`}
	w.want("queue draining", exit.OK, "ID    VHOST  NAME    MESSAGES  REASON\n1031  /      orders         7  a target is full\n", "")
	w.want("queue drop 1031", exit.OK, "", "removed deleted queue \"orders\", 7 messages are dropped\n")
	w.want("queue drop 1032", exit.OK, "", "removed deleted queue \"lost\", 3 messages are dropped, or more: it had no leader, and this is what was known last\n")
	w.want("queue drop 7", exit.Data, "", "amqpctl: deleted queue 7: Not Found (HTTP 404)\n")
	w.want("queue drop", exit.Usage, "", "amqpctl: want the id of a deleted queue; `amqpctl queue draining` lists them; see `amqpctl queue drop --help`\n")
}
