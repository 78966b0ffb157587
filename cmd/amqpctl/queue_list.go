package main

import (
	"strings"

	"github.com/warrenmq/warren/cmd/amqpctl/internal/httpapi"

	"github.com/urfave/cli/v2"
)

func queueListing() listing {
	return listing{
		plural: "queues", example: "queue ls --sort -messages --limit 20\nqueue ls -A --filter 'consumers=0' --filter 'messages>1000'\nqueue ls --name orders --watch",
		path: func(_ *cli.Context, vhost string) string { return vhostPath("queues", vhost) },
		columns: []column{
			vhostColumn, textColumn("NAME", "name"), textColumn("TYPE", "type"), flagsColumn("FLAGS", [2]string{"durable", "D"}, [2]string{"auto_delete", "AD"}, [2]string{"exclusive", "excl"}),
			textColumn("STATE", "state"), countColumn("READY", "messages_ready"), countColumn("UNACKED", "messages_unacknowledged"), countColumn("TOTAL", "messages"),
			countColumn("CONSUMERS", "consumers"), rateColumn("IN/S", "publish"), rateColumn("OUT/S", "deliver_get"), rateColumn("ACK/S", "ack"),
			wide(rateColumn("REDELIVER/S", "redeliver")), wide(sizeColumn("BYTES", "message_bytes")), wide(textColumn("POLICY", "policy")), wide(textColumn("LEADER", "leader")),
			wide(column{head: "MEMBERS", keys: []string{"members"}, show: func(o httpapi.Object) string { return strings.Join(o.Strings("members"), ",") }}),
			wide(textColumn("ARGUMENTS", "arguments")),
		},
	}
}

// vhostPath is the path of a list, of one virtual host or of all.
func vhostPath(kind, vhost string) string {
	if vhost == "" {
		return httpapi.Path(kind)
	}
	return httpapi.Path(kind, vhost)
}
