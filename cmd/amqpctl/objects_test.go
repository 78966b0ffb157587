package main

import (
	"fmt"
	"strings"
	"testing"

	"github.com/warrenmq/warren/cmd/amqpctl/internal/exit"
	"github.com/warrenmq/warren/cmd/amqpctl/internal/fakebroker"
)

// asked compares the requests since the last call.
func (w *world) asked(want ...string) {
	w.t.Helper()
	if fmt.Sprint(w.seen) != fmt.Sprint(want) {
		w.t.Errorf("requests\n%s\nwant\n%s", strings.Join(w.seen, "\n"), strings.Join(want, "\n"))
	}
	w.seen = nil
}

func TestExchangeDeclareAndDelete(t *testing.T) {
	w := newWorld(t, fakebroker.Config{})
	w.answers["PUT /api/exchanges/%2F/events"] = answer{201, ""}
	w.answers["PUT /api/exchanges/%2F/old"] = answer{204, ""}
	w.answers["DELETE /api/exchanges/%2F/events?if-unused=true"] = answer{400, `{"error":"bad_request","reason":"exchange 'events' in vhost '/' in use"}`}
	w.answers["GET /api/exchanges/%2F/events"] = answer{200, `{"name":"events"}`}
	w.want("exchange declare events old --type topic --internal --alternate rest --arg x=5", exit.OK, "", "declared exchange \"events\" in vhost \"/\"\nexchange \"old\" in vhost \"/\" exists already\n")
	body := ` {"arguments":{"alternate-exchange":"rest","x":5},"auto_delete":false,"durable":true,"internal":true,"type":"topic"}`
	w.asked("PUT /api/exchanges/%2F/events"+body, "PUT /api/exchanges/%2F/old"+body)
	w.want("exchange delete events --if-unused", exit.Data, "", "amqpctl: exchange \"events\" in vhost \"/\": exchange 'events' in vhost '/' in use (HTTP 400)\n")
	w.want("exchange rm events nix --dry-run", exit.Partial, "would delete exchange \"events\" in vhost \"/\"\n", "amqpctl: exchange \"nix\" in vhost \"/\": Not Found (HTTP 404)\n")
	w.asked("DELETE /api/exchanges/%2F/events?if-unused=true", "GET /api/exchanges/%2F/events", "GET /api/exchanges/%2F/nix")
}

func TestBindingAddAndRemove(t *testing.T) {
	w := newWorld(t, fakebroker.Config{})
	w.answers["POST /api/bindings/%2F/e/events/q/a%2Fb"] = answer{201, ""}
	w.answers["GET /api/bindings/%2F/e/events/q/q"] = answer{200, `[{"routing_key":"k","arguments":{},"properties_key":"k"},
	 {"routing_key":"k","arguments":{"x":5,"y":"z"},"properties_key":"k~hash"},{"routing_key":"","arguments":[],"properties_key":"~"}]`}
	for _, key := range []string{"k", "k~hash", "~"} {
		w.answers["DELETE /api/bindings/%2F/e/events/q/q/"+key] = answer{204, ""}
		w.answers["GET /api/bindings/%2F/e/events/q/q/"+key] = answer{200, "{}"}
	}
	w.want("binding add events a/b --key k --arg x=5", exit.OK, "", "added binding from \"events\" to queue \"a/b\" with key \"k\"\n")
	w.want("binding add events x --to exchange", exit.Data, "", "amqpctl: binding from \"events\" to exchange \"x\" with key \"\": Not Found (HTTP 404)\n")
	w.asked(`POST /api/bindings/%2F/e/events/q/a%2Fb {"arguments":{"x":5},"routing_key":"k"}`, `POST /api/bindings/%2F/e/events/e/x {"arguments":{},"routing_key":""}`)
	for args, key := range map[string]string{"--key k": "k", "": "~", "--key k --arg y=z --arg x=5": "k~hash"} {
		w.run("", strings.Fields("binding rm events q "+args)...)
		w.asked("GET /api/bindings/%2F/e/events/q/q", "DELETE /api/bindings/%2F/e/events/q/q/"+key)
	}
	w.want("binding rm events q --key k --arg x=6", exit.Data, "", "amqpctl: binding from \"events\" to queue \"q\" with key \"k\": there is none\n")
	w.want("binding rm events q --all --dry-run", exit.OK, "would delete binding from \"events\" to queue \"q\" with key \"k\"\nwould delete binding from \"events\" to queue \"q\" with key \"k\"\n"+
		"would delete binding from \"events\" to queue \"q\" with key \"\"\n", "")
}

func TestConnectionClose(t *testing.T) {
	w := newWorld(t, fakebroker.Config{})
	w.lists = map[string]string{"/api/connections/username/shop": `[{"name":"a -> b"},{"name":"c"}]`, "/api/vhosts/v/connections": `[]`, "/api/connections/c": `{"name":"c"}`}
	w.answers["DELETE /api/connections/a%20-%3E%20b"] = answer{204, ""}
	w.answers["DELETE /api/connections/c"] = answer{204, ""}
	out, err, code := w.run("", "connection", "close", "a -> b", "--reason", "moved\nhouse")
	if code != exit.OK || out != "" || err != "closed connection \"a -> b\"\n" || w.reason != "moved house" {
		t.Errorf("code %d, %q, %q, reason %q", code, out, err, w.reason)
	}
	w.want("connection close --user shop", exit.OK, "", "closed connection \"a -> b\"\nclosed connection \"c\"\n")
	w.want("connection close --all -p v", exit.OK, "", "there is no such connection\n")
	w.want("connection close c --dry-run", exit.OK, "would close connection \"c\"\n", "")
	w.want("connection close nix", exit.Data, "", "amqpctl: connection \"nix\": Not Found (HTTP 404)\n")
	w.asked("DELETE /api/connections/a%20-%3E%20b", "GET /api/connections/username/shop?columns=name&page=1&page_size=500", "DELETE /api/connections/a%20-%3E%20b", "DELETE /api/connections/c",
		"GET /api/vhosts/v/connections?columns=name&page=1&page_size=500", "GET /api/connections/c", "DELETE /api/connections/nix")
}

func TestVhostAddAndRemove(t *testing.T) {
	w := newWorld(t, fakebroker.Config{})
	w.answers["PUT /api/vhosts/a%2Fb"] = answer{201, ""}
	w.answers["DELETE /api/vhosts/a%2Fb"] = answer{204, ""}
	w.want("vhost add a/b --default-queue-type quorum --tag x --tag y", exit.OK, "", "created vhost \"a/b\"\n")
	w.want("vhost add a/b", exit.OK, "", "created vhost \"a/b\"\n")
	w.want("vhost rm a/b", exit.OK, "", "deleted vhost \"a/b\"\n")
	w.asked(`PUT /api/vhosts/a%2Fb {"default_queue_type":"quorum","tags":["x","y"]}`, `PUT /api/vhosts/a%2Fb {}`, `DELETE /api/vhosts/a%2Fb`)
}

func TestVhostTrace(t *testing.T) {
	w := newWorld(t, fakebroker.Config{})
	w.lists = map[string]string{"/api/vhosts/a%2Fb": `{"name":"a/b"}`}
	w.answers["PUT /api/vhosts/a%2Fb"] = answer{204, ""}
	w.want("vhost trace on a/b", exit.OK, "", "changed vhost \"a/b\"\n")
	w.want("vhost trace off a/b", exit.OK, "", "changed vhost \"a/b\"\n")
	w.want("vhost trace on nix", exit.Data, "", "amqpctl: vhost \"nix\": Not Found (HTTP 404)\n")
	w.asked(`GET /api/vhosts/a%2Fb`, `PUT /api/vhosts/a%2Fb {"tracing":true}`, `GET /api/vhosts/a%2Fb`, `PUT /api/vhosts/a%2Fb {"tracing":false}`, `GET /api/vhosts/nix`)
}

func TestUsers(t *testing.T) {
	w := newWorld(t, fakebroker.Config{})
	w.answers["PUT /api/users/new"] = answer{201, ""}
	w.answers["PUT /api/users/shop"] = answer{204, ""}
	w.answers["GET /api/users/shop"] = answer{200, `{"name":"shop","tags":["monitoring","x y"],"password_hash":"HASH","hashing_algorithm":"rabbit_password_hashing_sha512"}`}
	w.answers["DELETE /api/users/shop"] = answer{204, ""}
	w.want("user add new secret --tags management,monitoring", exit.OK, "", "created user \"new\"\n")
	w.want("user add new --no-password", exit.OK, "", "created user \"new\"\n")
	if _, err, code := w.run("from stdin\r\nnot this\n", "user", "add", "new", "--password-stdin"); code != exit.OK {
		t.Errorf("code %d, %s", code, err)
	}
	w.asked("GET /api/users/new", `PUT /api/users/new {"password":"secret","tags":"management,monitoring"}`, "GET /api/users/new", `PUT /api/users/new {"password_hash":"","tags":""}`,
		"GET /api/users/new", `PUT /api/users/new {"password":"from stdin","tags":""}`)
	w.want("user add shop secret", exit.Data, "", "amqpctl: user \"shop\" exists already; `amqpctl user passwd` and `amqpctl user tags` change it\n")
	w.seen = nil
	// What the API knows only whole stays as it was.
	w.want("user passwd shop other", exit.OK, "", "changed user \"shop\"\n")
	w.want("user tags shop management", exit.OK, "", "changed user \"shop\"\n")
	w.want("user tags shop", exit.OK, "", "changed user \"shop\"\n")
	w.want("user rm shop", exit.OK, "", "deleted user \"shop\"\n")
	w.asked("GET /api/users/shop", `PUT /api/users/shop {"password":"other","tags":"monitoring,x y"}`,
		"GET /api/users/shop", `PUT /api/users/shop {"hashing_algorithm":"rabbit_password_hashing_sha512","password_hash":"HASH","tags":"management"}`,
		"GET /api/users/shop", `PUT /api/users/shop {"hashing_algorithm":"rabbit_password_hashing_sha512","password_hash":"HASH","tags":""}`, "DELETE /api/users/shop")
	w.want("user passwd nix x", exit.Data, "", "amqpctl: user \"nix\": Not Found (HTTP 404)\n")
	w.seen = nil
	for args, text := range map[string]string{
		"user add u":                           "the password is missing; standard input is no terminal to ask on, so give --password-stdin",
		"user add u p secret":                  `unexpected argument "..."`,
		"user add u p --password-stdin":        "exclude each other",
		"user add u --no-password secret":      "exclude each other",
		"user passwd shop --password-stdin -q": "the password is empty",
	} {
		out, err, code := w.run("", strings.Fields(args)...)
		if code != exit.Usage && code != exit.Data || out != "" || !strings.Contains(err, text) || strings.Contains(err, "secret") {
			t.Errorf("amqpctl %s: code %d, %q, %q", args, code, out, err)
		}
	}
	for _, request := range w.seen {
		if strings.HasPrefix(request, "PUT") {
			t.Errorf("something was changed: %s", request)
		}
	}
}

func TestPermissions(t *testing.T) {
	w := newWorld(t, fakebroker.Config{})
	w.answers["PUT /api/permissions/v/shop"] = answer{201, ""}
	w.answers["DELETE /api/permissions/%2F/shop"] = answer{204, ""}
	if _, err, code := w.run("", "permission", "set", "shop", "^shop", "", ".*", "-p", "v"); code != exit.OK || err != "created permissions of user \"shop\" in vhost \"v\"\n" {
		t.Errorf("code %d, %q", code, err)
	}
	w.want("permission rm shop", exit.OK, "", "deleted permissions of user \"shop\" in vhost \"/\"\n")
	w.asked(`PUT /api/permissions/v/shop {"configure":"^shop","read":".*","write":""}`, "DELETE /api/permissions/%2F/shop")
}

func TestTopicPermissions(t *testing.T) {
	w := newWorld(t, fakebroker.Config{})
	w.answers["PUT /api/topic-permissions/v/shop"] = answer{201, ""}
	for _, path := range []string{"shop", "shop/events", "shop/a%2Fb"} {
		w.answers["DELETE /api/topic-permissions/%2F/"+path] = answer{204, ""}
	}
	w.answers["GET /api/topic-permissions/%2F/shop"] = answer{200, "[{}]"}
	if _, err, code := w.run("", "permission", "topic", "set", "shop", "events", "^{username}", "", "-p", "v"); code != exit.OK || err != "created topic permissions of user \"shop\" in vhost \"v\"\n" {
		t.Errorf("code %d, %q", code, err)
	}
	w.want("permission topic rm shop", exit.OK, "", "deleted topic permissions of user \"shop\" in vhost \"/\"\n")
	w.want("permission topic rm shop --dry-run", exit.OK, "would delete topic permissions of user \"shop\" in vhost \"/\"\n", "")
	w.want("permission topic rm shop events a/b", exit.OK, "", "deleted topic permissions of user \"shop\" in vhost \"/\" for exchange \"events\"\n"+
		"deleted topic permissions of user \"shop\" in vhost \"/\" for exchange \"a/b\"\n")
	w.asked(`PUT /api/topic-permissions/v/shop {"exchange":"events","read":"","write":"^{username}"}`, "DELETE /api/topic-permissions/%2F/shop", "GET /api/topic-permissions/%2F/shop",
		"DELETE /api/topic-permissions/%2F/shop/events", "DELETE /api/topic-permissions/%2F/shop/a%2Fb")
	if out, err, code := w.run("", "permission", "topic", "set", "shop", "events", "x"); code != exit.Usage || out != "" || !strings.Contains(err, "EXCHANGE WRITE READ") {
		t.Errorf("code %d, %q, %q", code, out, err)
	}
}

func TestLimits(t *testing.T) {
	w := newWorld(t, fakebroker.Config{})
	for _, path := range []string{"vhost-limits/a%2Fb/max-queues", "user-limits/shop/max-channels", "user-limits/shop/max-connections"} {
		w.answers["PUT /api/"+path] = answer{204, ""}
		w.answers["DELETE /api/"+path] = answer{204, ""}
	}
	w.want("vhost limit set a/b max-queues 0", exit.OK, "", "set limit max-queues of vhost \"a/b\" to 0\n")
	w.want("vhost limits clear a/b max-queues", exit.OK, "", "removed limit max-queues of vhost \"a/b\"\n")
	w.want("user limit set shop max-channels 10", exit.OK, "", "set limit max-channels of user \"shop\" to 10\n")
	w.want("user limit rm shop max-channels max-connections", exit.OK, "", "removed limit max-channels of user \"shop\"\nremoved limit max-connections of user \"shop\"\n")
	w.want("user limit set nix max-channels 10", exit.Data, "", "amqpctl: limit max-channels of user \"nix\": Not Found (HTTP 404)\n")
	w.asked(`PUT /api/vhost-limits/a%2Fb/max-queues {"value":0}`, "DELETE /api/vhost-limits/a%2Fb/max-queues", `PUT /api/user-limits/shop/max-channels {"value":10}`,
		"DELETE /api/user-limits/shop/max-channels", "DELETE /api/user-limits/shop/max-connections", `PUT /api/user-limits/nix/max-channels {"value":10}`)
	for args, text := range map[string]string{
		"user limit set shop max-queues 5":    "the limits of a user are max-connections and max-channels",
		"vhost limit set v max-channels 5":    "the limits of a vhost are max-connections and max-queues",
		"vhost limit set v max-queues -- -1":  "a whole number from 0 on",
		"vhost limit set v max-queues":        "not 1 words",
		"user limit rm shop":                  "the name of a limit is missing",
		"user limit rm shop max-channels nix": "not \"nix\"",
		"user limit set":                      "the name of a user is missing",
	} {
		if out, err, code := w.run("", strings.Fields(args)...); code != exit.Usage || out != "" || !strings.Contains(err, text) {
			t.Errorf("amqpctl %s: code %d, %q, %q", args, code, out, err)
		}
	}
	w.asked()
}

const peekJSON = `{"items":[{"position":4,"state":"ready","redelivered":false,"delivery_count":0,"exchange":"","routing_key":"orders","properties":{"content_type":"text/plain","headers":{"n":7,"s":"x"}},"payload":"hello\u0007","payload_encoding":"string","payload_bytes":6,"truncated":false,"enqueued_at":null},
 {"position":5,"state":"ready","redelivered":true,"delivery_count":2,"exchange":"x","routing_key":"","properties":{},"payload":"AAE=","payload_encoding":"base64","payload_bytes":500,"truncated":true,"enqueued_at":1700000000000}],"total":17,"applied":99}`

func TestQueuePeek(t *testing.T) {
	w := newWorld(t, fakebroker.Config{})
	w.answers["POST /api/queues/%2F/orders/peek"] = answer{200, peekJSON}
	w.want("queue peek orders --offset 4 -n 2", exit.OK, `POS  EXCHANGE     KEY     REDELIVERED  BYTES  PAYLOAD
  4  amq.default  orders  false            6  hello\x07
  5  x                    true           500  base64:AAE=…
`, "2 of 17 ready messages of queue \"orders\" in vhost \"/\"\n")
	w.want("queue peek orders --long -q", exit.OK, `Position        4
Exchange        amq.default
Routing key     orders
Redelivered     false
Delivery count  0
content_type    text/plain
header n        7
header s        x
Bytes           6
Payload         hello\x07

Position        5
Exchange        x
Redelivered     true
Delivery count  2
Enqueued        2023-11-14T22:13:20Z
Bytes           500
Payload         base64:AAE=…
`, "")
	out, _, _ := w.run("", "queue", "peek", "orders", "-o", "json", "--state", "unacked")
	if !sameJSON(t, out, peekJSON) {
		t.Errorf("json: %s", out)
	}
	w.want("queue peek nix", exit.Data, "", "amqpctl: queue \"nix\" in vhost \"/\": Not Found (HTTP 404)\n")
	const request = "POST /api/queues/%2F/"
	w.asked(request+`orders/peek {"count":2,"encoding":"auto","offset":4,"state":"ready","truncate":200}`, request+`orders/peek {"count":20,"encoding":"auto","offset":0,"state":"ready"}`,
		request+`orders/peek {"count":20,"encoding":"auto","offset":0,"state":"unacked"}`, request+`nix/peek {"count":20,"encoding":"auto","offset":0,"state":"ready","truncate":200}`)
}

func TestPurgeAndDeleteDryRun(t *testing.T) {
	w := newWorld(t, fakebroker.Config{})
	w.broker.Put("a", "1", "2")
	w.answers["GET /api/queues/%2F/a"] = answer{200, `{"name":"a","messages_ready":2}`}
	w.want("queue purge a --dry-run", exit.OK, "would purge 2 messages of queue \"a\" in vhost \"/\"\n", "")
	w.want("queue delete a --dry-run", exit.OK, "would delete queue \"a\" in vhost \"/\"\n", "")
	if bodies, _ := w.broker.Bodies("a"); len(bodies) != 2 {
		t.Errorf("%d messages are left", len(bodies))
	}
	w.asked("GET /api/queues/%2F/a", "GET /api/queues/%2F/a")
}

func TestQueueSet(t *testing.T) {
	w := newWorld(t, fakebroker.Config{})
	w.answers["GET /api/queues/v/q"] = answer{200, `{"name":"q","changed_arguments":{"x-max-length":5,"x-expires":null}}`}
	w.answers["PUT /api/queues/v/q/arguments"] = answer{204, ""}
	w.want("queue set q x-max-length=7 x-overflow=reject-publish --without x-message-ttl -p v", exit.OK, "", "changed queue \"q\" in vhost \"v\"\n")
	w.want("queue set q --reset -p v", exit.OK, "", "changed queue \"q\" in vhost \"v\"\n")
	w.asked("GET /api/queues/v/q", `PUT /api/queues/v/q/arguments {"arguments":{"x-expires":null,"x-max-length":7,"x-message-ttl":null,"x-overflow":"reject-publish"}}`,
		"GET /api/queues/v/q", `PUT /api/queues/v/q/arguments {"arguments":{}}`)
}

func TestParameters(t *testing.T) {
	w := newWorld(t, fakebroker.Config{})
	w.answers["PUT /api/parameters/shovel/v/s"] = answer{201, ""}
	w.answers["PUT /api/global-parameters/cluster_tags"] = answer{204, ""}
	w.answers["PUT /api/parameters/nope/%2F/s"] = answer{400, `{"error":"bad_request","reason":"Validation failed\n\ncomponent nope not found\n"}`}
	w.answers["DELETE /api/parameters/shovel/%2F/s"] = answer{204, ""}
	w.answers["DELETE /api/global-parameters/gone"] = answer{404, `{"error":"Object Not Found","reason":"Not Found"}`}
	w.want(`parameter set shovel s {"src-queue":"q"} -p v`, exit.OK, "", "created parameter \"shovel s\" in vhost \"v\"\n")
	w.want("global-parameter set cluster_tags plain", exit.OK, "", "changed global-parameter \"cluster_tags\"\n")
	if _, err, code := w.run("", "parameter", "set", "nope", "s", "1"); code != exit.Data || !strings.Contains(err, "component nope not found") {
		t.Errorf("%d %s", code, err)
	}
	w.want("parameter rm shovel s", exit.OK, "", "removed parameter \"shovel s\" in vhost \"/\"\n")
	if _, _, code := w.run("", "global-parameter", "rm", "gone"); code != exit.Data {
		t.Errorf("a parameter that is not there: %d", code)
	}
	w.asked(`PUT /api/parameters/shovel/v/s {"value":{"src-queue":"q"}}`, `PUT /api/global-parameters/cluster_tags {"value":"plain"}`, `PUT /api/parameters/nope/%2F/s {"value":1}`,
		"DELETE /api/parameters/shovel/%2F/s", "DELETE /api/global-parameters/gone")
}

func TestPolicies(t *testing.T) {
	w := newWorld(t, fakebroker.Config{})
	w.answers["PUT /api/policies/v/limits"] = answer{201, ""}
	w.answers["PUT /api/operator-policies/%2F/bounds"] = answer{400, `{"error":"bad_request","reason":"Validation failed\n\n-1 is not a valid queue expiry\n"}`}
	w.answers["DELETE /api/policies/%2F/limits"] = answer{204, ""}
	w.want("policy set limits ^a max-length=5 overflow=reject-publish -p v --apply-to queues --priority -3", exit.OK, "", "created policy \"limits\" in vhost \"v\"\n")
	if _, err, code := w.run("", "operator-policy", "set", "bounds", "", "expires=-1"); code != exit.Data || !strings.Contains(err, "-1 is not a valid queue expiry") {
		t.Errorf("code %d, %q", code, err)
	}
	w.want("policy rm limits", exit.OK, "", "deleted policy \"limits\" in vhost \"/\"\n")
	w.asked(`PUT /api/policies/v/limits {"apply-to":"queues","definition":{"max-length":5,"overflow":"reject-publish"},"pattern":"^a","priority":-3}`,
		`PUT /api/operator-policies/%2F/bounds {"apply-to":"all","definition":{"expires":-1},"pattern":"","priority":0}`, "DELETE /api/policies/%2F/limits")
}
