package harness

// WithoutSecret leaves the cluster's secret out of what the node is told at its next start.
func (n *Node) WithoutSecret() {
	var args []string
	for i := 0; i < len(n.opts.Args); i++ {
		if n.opts.Args[i] == "--cluster-secret" {
			i++ // the secret itself
			continue
		}
		args = append(args, n.opts.Args[i])
	}
	n.opts.Args = args
}
