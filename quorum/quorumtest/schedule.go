package quorumtest

import (
	"fmt"
	"math/rand/v2"
	"strings"
	"time"

	"github.com/warrenmq/warren/quorum/quorumtest/memnet"
)

// Step is one fault, or the end of one, of a Schedule.
type Step struct {
	After time.Duration // the step before it
	Text  string
	do    func(c *Cluster)
}

// Schedule is what is done to a cluster.
type Schedule []Step

func (s Schedule) String() string {
	var b strings.Builder
	at := time.Duration(0)
	for _, step := range s {
		at += step.After
		fmt.Fprintf(&b, "%8v %s\n", at, step.Text)
	}
	return b.String()
}

// Run does it, then heals and starts everything.
func (s Schedule) Run(c *Cluster) {
	c.T.Helper()
	for _, step := range s {
		c.Pass(step.After)
		step.do(c)
	}
	c.Heal()
	c.SetRaftFaults(RaftFaults{})
	c.Net.SetLatency("", "", c.opts.Latency)
	for _, n := range c.Nodes {
		n.PowerOn()
		if n.process() == nil {
			n.Begin()
		}
	}
	for _, n := range c.Nodes {
		n.await(LivenessMillis * time.Millisecond)
	}
}

// RandomSchedule makes a schedule of some steps for a number of nodes.
func RandomSchedule(rng *rand.Rand, nodes, steps int) Schedule {
	var s Schedule
	for len(s) < steps {
		after := time.Duration(20+rng.IntN(800)) * time.Millisecond
		if rng.IntN(10) == 0 {
			after = time.Duration(rng.IntN(8000)) * time.Millisecond // long enough for a death
		}
		text, do := randomFault(rng, nodes)
		s = append(s, Step{after, text, do})
	}
	return s
}

// randomFault is one step. Nodes are named by their place, so that a schedule is the same whatever becomes of them.
func randomFault(rng *rand.Rand, nodes int) (string, func(c *Cluster)) {
	i, j := rng.IntN(nodes), rng.IntN(nodes-1)
	if j >= i {
		j++
	}
	fault := memnet.Stall
	if rng.IntN(3) == 0 {
		fault = memnet.Reset
	}
	switch rng.IntN(16) {
	case 0, 1:
		return fmt.Sprintf("kill n%d", i+1), func(c *Cluster) { c.Nodes[i].Kill() }
	case 2:
		return fmt.Sprintf("power off n%d", i+1), func(c *Cluster) { c.Nodes[i].PowerOff() }
	case 3:
		return fmt.Sprintf("stop n%d", i+1), func(c *Cluster) { c.Nodes[i].Stop() }
	case 4:
		return "kill the leaders", func(c *Cluster) {
			for _, n := range c.leaders() {
				n.Kill()
			}
		}
	case 5, 6, 7:
		return "start what is down", func(c *Cluster) {
			for _, n := range c.Nodes {
				if n.process() == nil {
					n.PowerOn()
					n.Begin()
				}
			}
		}
	case 8:
		return fmt.Sprintf("isolate n%d, fault %d", i+1, fault), func(c *Cluster) { c.Net.Isolate(c.Nodes[i].Name, fault) }
	case 9:
		return fmt.Sprintf("cut n%d from n%d, fault %d", i+1, j+1, fault), func(c *Cluster) { c.cutBoth(c.Nodes[i], c.Nodes[j], fault) }
	case 10:
		return fmt.Sprintf("cut one way from n%d to n%d", i+1, j+1), func(c *Cluster) { c.CutOneWay(c.Nodes[i], c.Nodes[j]) }
	case 11, 12:
		return "heal", func(c *Cluster) { c.Heal() }
	case 13:
		f := RaftFaults{Drop: rng.Float64() * 0.3, Repeat: rng.Float64() * 0.3, Hold: rng.Float64() * 0.3}
		return fmt.Sprintf("Raft messages: drop %.2f, repeat %.2f, hold %.2f", f.Drop, f.Repeat, f.Hold), func(c *Cluster) { c.SetRaftFaults(f) }
	case 14:
		return "Raft messages: all well", func(c *Cluster) { c.SetRaftFaults(RaftFaults{}) }
	}
	d := time.Duration(rng.IntN(40_000)) * time.Microsecond
	return fmt.Sprintf("latency %v", d), func(c *Cluster) { c.Net.SetLatency("", "", d) }
}

func (c *Cluster) cutBoth(a, b *Node, fault memnet.Fault) {
	c.Net.Cut(a.Name, b.Name, fault)
	c.Net.Cut(b.Name, a.Name, fault)
}

// leaders returns the nodes that lead a queue.
func (c *Cluster) leaders() []*Node {
	var list []*Node
	for _, n := range c.Live() {
		for q := range n.Host().Catalogue().View.QueuesByID() {
			if st, ok := n.Host().QueueStatus(q.ID); ok && st.Leader == n.ID {
				list = append(list, n)
				break
			}
		}
	}
	return list
}
