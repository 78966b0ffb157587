package main

import (
	"github.com/warrenmq/warren/cmd/amqpctl/internal/httpapi"

	"github.com/urfave/cli/v2"
)

var nodeNoun = noun{"a", "node", "nodes", "nodes", false, ""}

func nodeCommand(std streams) *cli.Command {
	return &cli.Command{
		Name: "node", Aliases: []string{"nodes"}, Usage: "list the nodes of the cluster, and set their memory and disk limits",
		Subcommands: []*cli.Command{
			listCommand(std, nodeListing()),
			nodeLimitCommand(std, "set-memory-watermark", "vm_memory_high_watermark", "set how much memory a node may take until publishers are blocked",
				"The equivalent of `rabbitmqctl set_vm_memory_high_watermark`.", examples("node set-memory-watermark rabbit@one --relative 0.4")),
			nodeLimitCommand(std, "set-disk-limit", "disk_free_limit", "set how much disk space must be free, or publishers are blocked",
				"The equivalent of `rabbitmqctl set_disk_free_limit`; --relative is a part of the memory limit.", examples("node set-disk-limit rabbit@one --absolute 2GB")),
		},
	}
}

// nodeLimitCommand sets a threshold, known by its setting, on nodes that run.
func nodeLimitCommand(std streams, name, setting, usage, description, example string) *cli.Command {
	return &cli.Command{
		Name: name, Usage: usage, ArgsUsage: "NODE...",
		Description: description + " It counts at once and until the node stops; the setting " + setting + " is for ever.\n\n" + example,
		Flags: []cli.Flag{
			&cli.StringFlag{Name: "relative", Usage: "`FRACTION` of the memory limit, as 0.4"},
			&cli.StringFlag{Name: "absolute", Usage: "`SIZE` in bytes, or as 512MiB or 2GB"},
		},
		Action: func(c *cli.Context) error {
			s, names, err := namesOf(c, std, nodeNoun)
			if err != nil {
				return err
			}
			if c.IsSet("relative") == c.IsSet("absolute") {
				return usagef(c, "one of --relative and --absolute is needed")
			}
			body := map[string]string{}
			for _, form := range []string{"relative", "absolute"} {
				if c.IsSet(form) {
					body[setting+"."+form] = c.String(form)
				}
			}
			api, err := s.api()
			if err != nil {
				return err
			}
			return s.each(names, func(node string) error {
				return s.put(c, api, s.named(nodeNoun, node), httpapi.Path("nodes", node, "limits"), body)
			})
		},
	}
}
