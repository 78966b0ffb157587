package main

import (
	"encoding/json"
	"fmt"
	"path/filepath"
	"strings"
	"time"

	"github.com/warrenmq/warren/cmd/amqpctl/internal/authority"
	"github.com/warrenmq/warren/cmd/amqpctl/internal/exit"
	"github.com/warrenmq/warren/cmd/amqpctl/internal/table"

	"github.com/urfave/cli/v2"
)

func clusterCommand(std streams) *cli.Command {
	return &cli.Command{
		Name: "cluster", Usage: "prepare what the nodes of a cluster have in common",
		Subcommands: []*cli.Command{initTLSCommand(std)},
	}
}

// certified is a node with the files that it is to be started with.
type certified struct {
	Node      string `json:"node"`
	CertFile  string `json:"certfile"`
	KeyFile   string `json:"keyfile"`
	CAFile    string `json:"cacertfile"`
	NotAfter  string `json:"not_after"`
	addresses []string
}

func initTLSCommand(std streams) *cli.Command {
	return &cli.Command{
		Name: "init-tls", Usage: "make an authority and certificates for TLS between nodes", ArgsUsage: "NODE=HOST[,HOST]...",
		Description: "Writes ca.pem and ca.key, and for each node NODE.pem and NODE.key, into a directory of this machine; no broker is asked. HOSTs are the names and IP addresses under which other nodes\n" +
			"reach the node: the host of its cluster.advertise must be one of them. An authority that is there already is used again, for more nodes or for new certificates of old ones (--renew).\n" +
			"Bring NODE.pem, NODE.key and ca.pem to each node and set cluster.ssl.certfile, cluster.ssl.keyfile and cluster.ssl.cacertfile; keep ca.key away from all of them.\n\n" +
			examples("cluster init-tls --dir tls rabbit@one=10.0.0.1 rabbit@two=10.0.0.2,two.example.org"),
		Flags: []cli.Flag{
			&cli.StringFlag{Name: "dir", Value: "tls", Usage: "`DIRECTORY` of the files; it is made if it is missing"},
			&cli.IntFlag{Name: "days", Value: 825, Usage: "`DAYS` that the nodes' certificates are good for; a new authority is for ten times as many"},
			&cli.BoolFlag{Name: "renew", Usage: "replace certificates and keys that are there"},
		},
		Action: func(c *cli.Context) error {
			s, err := settingsOf(c, std)
			if err != nil {
				return err
			}
			nodes, err := nodesToCertify(c)
			if err != nil {
				return err
			}
			if days := c.Int("days"); days < 1 || days > 10_000 {
				return usagef(c, "--days is 1 to 10000, not %d", days)
			}
			return s.initTLS(c, nodes)
		},
	}
}

// nodesToCertify reads NODE=HOST,HOST.
func nodesToCertify(c *cli.Context) ([]certified, error) {
	if c.Args().Len() == 0 {
		return nil, usagef(c, "no node is named")
	}
	var nodes []certified
	for _, word := range c.Args().Slice() {
		node, hosts, ok := strings.Cut(word, "=")
		addresses := strings.Split(hosts, ",")
		for _, host := range addresses {
			ok = ok && host != "" && !strings.ContainsAny(host, " /:") || ok && strings.Count(host, ":") > 1
		}
		if !ok || node == "" || strings.ContainsAny(node, `/\`) || strings.HasPrefix(node, ".") || node == "ca" {
			return nil, usagef(c, "%q is not NODE=HOST[,HOST]: a node's name and the hosts, without ports, under which others reach it", word)
		}
		nodes = append(nodes, certified{Node: node, addresses: addresses})
	}
	return nodes, nil
}

func (s *settings) initTLS(c *cli.Context, nodes []certified) error {
	dir, valid := c.String("dir"), time.Duration(c.Int("days"))*24*time.Hour
	ca, made, err := authority.Open(dir, 10*valid)
	if err != nil {
		return exit.Errorf(exit.Data, "the authority in %s: %w", dir, err)
	}
	if made {
		s.notice("made the authority %s", ca.File())
	}
	for i := range nodes {
		n := &nodes[i]
		n.CertFile, n.KeyFile, n.CAFile = filepath.Join(dir, n.Node+".pem"), filepath.Join(dir, n.Node+".key"), ca.File()
		until, err := ca.Issue(n.Node, n.addresses, valid, n.CertFile, n.KeyFile, c.Bool("renew"))
		if err != nil {
			return exit.Errorf(exit.Data, "the certificate of %s: %w", n.Node, err)
		}
		n.NotAfter = until.UTC().Format(time.RFC3339)
	}
	if s.json {
		body, err := json.Marshal(nodes)
		if err != nil {
			return err
		}
		return writeJSON(s.out, body)
	}
	t := &table.Table{Columns: []table.Column{{Head: "NODE"}, {Head: "cluster.ssl.certfile"}, {Head: "cluster.ssl.keyfile"}, {Head: "cluster.ssl.cacertfile"}, {Head: "UNTIL"}}}
	for _, n := range nodes {
		t.Rows = append(t.Rows, []string{n.Node, n.CertFile, n.KeyFile, n.CAFile, n.NotAfter})
	}
	if err := t.Write(s.out, s.tableOptions()); err != nil {
		return fmt.Errorf("writing the table: %w", err)
	}
	return nil
}
