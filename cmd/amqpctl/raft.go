package main

import (
	"fmt"
	"slices"
	"strings"

	"github.com/warrenmq/warren/cmd/amqpctl/internal/exit"
	"github.com/warrenmq/warren/cmd/amqpctl/internal/httpapi"
	"github.com/warrenmq/warren/cmd/amqpctl/internal/table"

	"github.com/urfave/cli/v2"
)

// The keys of a row of GET /api/queues/quorum/VHOST/QUEUE/status.
const (
	keyNode  = "Node Name"
	keyState = "Raft State"
)

func raftCommand(std streams) *cli.Command {
	return &cli.Command{
		Name: "raft", Usage: "show, add and remove replicas of queues",
		Subcommands: []*cli.Command{raftStatusCommand(std), raftAddCommand(std), raftRemoveCommand(std)},
	}
}

func raftPath(vhost, queue string, more ...string) string {
	return httpapi.Path(append([]string{"queues", "quorum", vhost, queue}, more...)...)
}

func raftStatusCommand(std streams) *cli.Command {
	return &cli.Command{
		Name: "status", Aliases: []string{"show"}, Usage: "show the replicas of a queue: who leads, who follows, how far each one is", ArgsUsage: "QUEUE",
		Description: "With -o json the rows of GET /api/queues/quorum/VHOST/QUEUE/status. A replica that does not answer is shown as nodedown or noproc, all replicas of a queue that nothing\n" +
			"wanted yet as parked, one whose files are damaged as quarantined, with what is damaged below the table: it is replaced by a new one if there are others; the exit code is 0 also then.\n\n" + examples("raft status orders"),
		Action: func(c *cli.Context) error {
			s, queue, err := oneName(c, std, queueNoun)
			if err != nil {
				return err
			}
			api, err := s.api()
			if err != nil {
				return err
			}
			body, err := api.Get(c.Context, raftPath(s.vhost, queue, "status"), nil)
			if err != nil {
				return exit.Wrap(err, "%s", s.queueName(queue))
			}
			if s.json {
				return writeJSON(s.out, body)
			}
			rows, err := httpapi.DecodeList(body)
			if err != nil {
				return err
			}
			if err := replicaTable(rows).Write(s.out, s.tableOptions()); err != nil {
				return err
			}
			for _, row := range rows {
				if reason := row.Text("Reason"); reason != "" {
					if _, err := fmt.Fprintf(s.out, "%s: %s\n", row.Text(keyNode), reason); err != nil {
						return err
					}
				}
			}
			return nil
		},
	}
}

// replicaColumns are the headings of the keys that follow node and state.
var replicaColumns = []struct{ head, key string }{
	{"TERM", "Term"}, {"LAST INDEX", "Last Log Index"}, {"WRITTEN", "Last Written"}, {"COMMITTED", "Commit Index"}, {"APPLIED", "Last Applied"}, {"SNAPSHOT", "Snapshot Index"},
	{"VERSION", "Machine Version"},
}

func replicaTable(rows []httpapi.Object) *table.Table {
	t := &table.Table{Columns: []table.Column{{Head: "NODE"}, {Head: "STATE"}, {Head: "MEMBERSHIP"}}}
	for _, column := range replicaColumns {
		t.Columns = append(t.Columns, table.Column{Head: column.head, Number: true})
	}
	text := func(o httpapi.Object, key string) string {
		if v := o.Text(key); v != "" {
			return v
		}
		return unknown
	}
	for _, row := range rows {
		cells := []string{text(row, keyNode), text(row, keyState), text(row, "Membership")}
		for _, column := range replicaColumns {
			cells = append(cells, text(row, column.key))
		}
		t.Rows = append(t.Rows, cells)
	}
	return t
}

func raftAddCommand(std streams) *cli.Command {
	return &cli.Command{
		Name: "add", Usage: "add replicas of a queue on nodes", ArgsUsage: "QUEUE NODE...",
		Description: "Returns when the queue's group has the member; the new replica then takes the messages over by itself, see `amqpctl raft status`. A node that has a replica already is left as\n" +
			"it is.\n\n" + examples("raft add orders rabbit@four"),
		Action: func(c *cli.Context) error {
			return changeReplicas(c, std, "", func(s *settings, api *httpapi.Client, queue, node string, has bool) error {
				if has {
					s.notice("node %s has a replica of %s already", node, s.queueName(queue))
					return nil
				}
				if err := api.Post(c.Context, raftPath(s.vhost, queue, "replicas", "add"), map[string]string{"node": node}); err != nil {
					return err
				}
				s.notice("added a replica of %s on node %s", s.queueName(queue), node)
				return nil
			})
		},
	}
}

func raftRemoveCommand(std streams) *cli.Command {
	return &cli.Command{
		Name: "remove", Aliases: []string{"rm"}, Usage: "remove replicas of a queue from nodes", ArgsUsage: "QUEUE NODE...",
		Description: "The last replica cannot be removed: delete the queue instead. A node that has no replica is left as it is.\n\n" + examples("raft remove orders rabbit@one"),
		Action: func(c *cli.Context) error {
			return changeReplicas(c, std, "Remove", func(s *settings, api *httpapi.Client, queue, node string, has bool) error {
				if err := api.DeleteBy(c.Context, raftPath(s.vhost, queue, "replicas", "delete"), map[string]string{"node": node}); err != nil {
					return err // also of a node that the cluster does not know, which has no replica either
				}
				if !has {
					s.notice("node %s has no replica of %s", node, s.queueName(queue))
					return nil
				}
				s.notice("removed the replica of %s from node %s", s.queueName(queue), node)
				return nil
			})
		},
	}
}

// changeReplicas runs a step for every node of the command line, which tells whether the node has a replica. verb begins the question before something is destroyed; without one none is asked.
func changeReplicas(c *cli.Context, std streams, verb string, step func(s *settings, api *httpapi.Client, queue, node string, has bool) error) error {
	s, queue, nodes, err := nameOf(c, std, queueNoun)
	if err != nil {
		return err
	}
	if len(nodes) == 0 {
		return usagef(c, "the name of a node is missing")
	}
	if slices.Contains(nodes, "") {
		return usagef(c, "the name of a node is empty")
	}
	api, err := s.api()
	if err != nil {
		return err
	}
	body, err := api.Get(c.Context, raftPath(s.vhost, queue, "status"), nil)
	if err != nil {
		return exit.Wrap(err, "%s", s.queueName(queue))
	}
	rows, err := httpapi.DecodeList(body)
	if err != nil {
		return err
	}
	var members []string
	for _, row := range rows {
		members = append(members, row.Text(keyNode))
	}
	if verb != "" {
		if err := s.confirm(fmt.Sprintf("%s the replicas of %s on %s?", verb, s.queueName(queue), strings.Join(nodes, ", "))); err != nil {
			return err
		}
	}
	return s.each(nodes, func(node string) error {
		if err := step(s, api, queue, node, slices.Contains(members, node)); err != nil {
			return exit.Wrap(err, "%s, node %s", s.queueName(queue), node)
		}
		return nil
	})
}
