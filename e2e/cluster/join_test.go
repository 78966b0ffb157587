package cluster

import (
	"fmt"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"syscall"
	"testing"
	"time"

	"github.com/warrenmq/warren/e2e/harness"
)

const (
	// exitRefused is the exit code of a node that no cluster takes in.
	exitRefused = 77
	// exitDamaged is the exit code of a node whose data directory is damaged.
	exitDamaged = 65
	// nowhere is an address where nothing listens.
	nowhere = "127.0.0.1:1"
	// judgeTimeout is how long a node may take to find out that it is refused.
	judgeTimeout = 30 * time.Second
)

// TestJoin has nodes that a cluster must not take in, and nodes that must find their cluster whatever they are told.
func TestJoin(t *testing.T) {
	t.Parallel()
	c := harness.StartCluster(t, 3, harness.ClusterOptions{Patience: pick(4*time.Minute, 15*time.Minute)})
	ch := c.Nodes[0].Channel(t)
	declareReplicated(t, ch, quorumQueue, harness.Quorum)
	if err := ch.Confirm(false); err != nil {
		t.Fatal(err)
	}
	harness.PublishConfirmed(t, ch, "", quorumQueue, []byte("kept"))
	for _, test := range []struct {
		name string
		run  func(*testing.T, *harness.Cluster)
	}{
		{"the secret is another one", joinWrongSecret},
		{"the node has only its own secret", joinOwnSecret},
		{"the name is taken", joinTakenName},
		{"the directory is another cluster's", joinForeignDirectory},
		{"another cluster at a known address", meetForeignNode},
		{"join is ignored in a cluster", joinIgnored},
		{"the seed is gone", seedGone},
		{"the address changed", addressChanged},
		{"the addresses of two changed", twoAddressesChanged},
		{"wiped but for its identity", wipedButIdentity},
		{"an older copy is put back", olderCopy},
		{"the secret is another one at a later start", laterSecret},
		{"wiped under its old name", wiped},
		{"replaced while it was away", replacedWhileAway},
		{"two ask for one free name at once", joinAtOnce}, // the last one: the cluster is larger then
	} {
		t.Run(test.name, func(t *testing.T) { test.run(t, c) })
	}
}

// members are the nodes of the cluster itself, running or not.
func members(c *harness.Cluster) []*harness.Node { return c.Nodes[:3] }

// seeds are their addresses.
func seeds(c *harness.Cluster) []string {
	var list []string
	for _, n := range members(c) {
		list = append(list, n.Advertised)
	}
	return list
}

// wantRefused starts a node and wants it to end because its cluster does not want it.
func wantRefused(t *testing.T, n *harness.Node, says ...string) {
	t.Helper()
	wantEnd(t, n, exitRefused, says...)
}

// wantEnd starts a node and wants it to end with an exit code and one line that says why.
func wantEnd(t *testing.T, n *harness.Node, wanted int, says ...string) {
	t.Helper()
	printed := len(n.Log())
	n.Start(t)
	code, err := n.Process().Wait(judgeTimeout)
	if err != nil {
		t.Fatalf("%s: %v\n%s", n.Name, err, n.LogTail())
	}
	if code != wanted {
		t.Errorf("%s: exit code %d, want %d", n.Name, code, wanted)
	}
	var lines []string
	for line := range strings.Lines(n.Log()[printed:]) {
		if !strings.HasPrefix(line, "time=") {
			lines = append(lines, strings.TrimSpace(line))
		}
	}
	t.Logf("%s: exit code %d: %s", n.Name, code, strings.Join(lines, "\n"))
	if len(lines) != 1 || !strings.HasPrefix(lines[0], "warren: ") {
		t.Errorf("%s: standard error has %d lines beside the log, want one that begins with \"warren: \"", n.Name, len(lines))
	}
	for _, text := range says {
		if !strings.Contains(strings.Join(lines, "\n"), text) {
			t.Errorf("%s: standard error does not say %q", n.Name, text)
		}
	}
}

// names are the nodes that a node lists, sorted; those that it sees running, or all.
func names(t *testing.T, n *harness.Node, runningOnly bool) []string {
	t.Helper()
	var list []struct {
		Name    string `json:"name"`
		Running bool   `json:"running"`
	}
	n.Get(t, harness.Path("nodes"), &list)
	var found []string
	for _, seen := range list {
		if seen.Running || !runningOnly {
			found = append(found, seen.Name)
		}
	}
	slices.Sort(found)
	return found
}

// wantUnchanged wants the cluster to have its three nodes and to serve the message.
func wantUnchanged(t *testing.T, c *harness.Cluster) {
	t.Helper()
	want := []string{"rabbit@n1", "rabbit@n2", "rabbit@n3"}
	for _, n := range members(c) {
		harness.Eventually(t, serveTimeout, func() error {
			if got := names(t, n, true); !slices.Equal(got, want) {
				return fmt.Errorf("%s sees %v running, want %v", n.Name, got, want)
			}
			if got := names(t, n, false); !slices.Equal(got, want) {
				return fmt.Errorf("%s lists %v, want %v", n.Name, got, want)
			}
			return nil
		})
		wantKept(t, n)
	}
}

// wantKept wants a node to have the message, and takes a publish to its queue, which it takes out again.
func wantKept(t *testing.T, n *harness.Node) {
	t.Helper()
	wantReady(t, n, 1)
	ch := n.Channel(t)
	if err := ch.Confirm(false); err != nil {
		t.Fatal(err)
	}
	harness.Eventually(t, serveTimeout, func() error { return harness.TryPublishConfirmed(ch, "", quorumQueue, []byte("more")) })
	kept, ok, err := ch.Get(quorumQueue, false)
	if err != nil || !ok || string(kept.Body) != "kept" {
		t.Fatalf("%s: got %q (found: %t), %v, want the message that was kept", n.Name, kept.Body, ok, err)
	}
	for {
		more, ok, err := ch.Get(quorumQueue, true)
		if err != nil {
			t.Fatal(err)
		}
		if !ok {
			break
		}
		if string(more.Body) != "more" {
			t.Fatalf("%s: got %q", n.Name, more.Body)
		}
	}
	if err := kept.Nack(false, true); err != nil {
		t.Fatal(err)
	}
	wantReady(t, n, 1)
}

// wantReady waits until a node tells of as many ready messages.
func wantReady(t *testing.T, n *harness.Node, want int) {
	t.Helper()
	harness.Eventually(t, serveTimeout, func() error {
		st, err := n.Queue(quorumQueue)
		if err == nil && st.Ready != want {
			err = fmt.Errorf("%s tells of %d messages, want %d: %+v", n.Name, st.Ready, want, st)
		}
		return err
	})
}

func joinWrongSecret(t *testing.T, c *harness.Cluster) {
	n := c.PrepareWith(t, "rabbit@stranger", seeds(c), "--cluster-secret", "another secret")
	wantRefused(t, n, "secret")
	wantUnchanged(t, c)
}

func joinOwnSecret(t *testing.T, c *harness.Cluster) {
	n := c.PrepareWith(t, "rabbit@stranger", seeds(c))
	n.WithoutSecret()
	wantRefused(t, n, "secret")
	info, err := os.Stat(filepath.Join(n.DataDir, "cluster.secret"))
	if err != nil || info.Mode().Perm() != 0o600 {
		t.Errorf("the secret that the node made: %v, %v, want mode 0600", info, err)
	}
	wantUnchanged(t, c)
}

func joinTakenName(t *testing.T, c *harness.Cluster) {
	n := c.PrepareWith(t, "rabbit@n2", seeds(c))
	wantRefused(t, n, "rabbit@n2", "name")
	wantUnchanged(t, c)
}

// joinForeignDirectory restarts a node that has a cluster of its own: it stays there, whatever it is told to join.
func joinForeignDirectory(t *testing.T, c *harness.Cluster) {
	n := foreigner(t, c)
	defer n.Close()
	c.Rename(n, n.Name, seeds(c))
	n.Restart(t)
	n.AwaitHTTP(t)
	if got := names(t, n, false); !slices.Equal(got, []string{n.Name}) {
		t.Errorf("a node with a cluster of its own lists %v after a start with addresses to join, want itself", got)
	}
	n.AwaitCount(t, "own", 1)
	wantUnchanged(t, c)
}

// foreigner is a node that runs as a cluster of its own and has a message.
func foreigner(t *testing.T, c *harness.Cluster) *harness.Node {
	t.Helper()
	n := c.PrepareWith(t, fmt.Sprintf("rabbit@foreign%d", len(c.Nodes)), nil)
	n.Launch(t)
	ch := n.Channel(t)
	declareReplicated(t, ch, "own", harness.Quorum)
	if err := ch.Confirm(false); err != nil {
		t.Fatal(err)
	}
	harness.PublishConfirmed(t, ch, "", "own", []byte("own"))
	return n
}

// meetForeignNode has a node of another cluster, with the same secret, listen where the cluster expects one of its own.
func meetForeignNode(t *testing.T, c *harness.Cluster) {
	n := foreigner(t, c)
	n.Terminate(t)
	second := c.Nodes[1]
	second.Terminate(t)
	was := n.Broker.Cluster
	n.Broker.Cluster = second.Broker.Cluster
	n.Launch(t)
	// The others dial its port all the time. That they do not take it for their own cannot be waited for.
	time.Sleep(2 * time.Second)
	for _, other := range []*harness.Node{c.Nodes[0], c.Nodes[2]} {
		if got := names(t, other, true); !slices.Equal(got, []string{"rabbit@n1", "rabbit@n3"}) {
			t.Errorf("%s sees %v running while a node of another cluster has the port of rabbit@n2", other.Name, got)
		}
		wantKept(t, other)
	}
	if !strings.Contains(n.Log(), "the cluster is another one") {
		t.Errorf("the log of %s does not say that nodes of another cluster call it", n.Name)
	}
	n.AwaitCount(t, "own", 1)
	n.Terminate(t)
	n.Broker.Cluster = was
	second.Launch(t)
	wantUnchanged(t, c)
}

func joinIgnored(t *testing.T, c *harness.Cluster) {
	third := c.Nodes[2]
	third.Kill9()
	c.Rename(third, third.Name, []string{nowhere})
	third.Launch(t)
	wantUnchanged(t, c)
}

// seedGone restarts the nodes that joined while the one through which they did is away.
func seedGone(t *testing.T, c *harness.Cluster) {
	first, second, third := c.Nodes[0], c.Nodes[1], c.Nodes[2]
	for _, n := range members(c) {
		n.Kill9()
	}
	c.Launch(t, second, third)
	wantKept(t, second)
	wantKept(t, third)
	first.Launch(t)
	wantUnchanged(t, c)
}

// addressChanged moves one node while another is away: that one knows only where it was.
func addressChanged(t *testing.T, c *harness.Cluster) {
	first, second := c.Nodes[0], c.Nodes[1]
	first.Kill9()
	second.Kill9()
	c.Move(t, second)
	second.Launch(t)
	first.Launch(t)
	wantUnchanged(t, c)
	// Now both others know only the old address of one that comes back last.
	second.Terminate(t)
	c.Move(t, second)
	second.Launch(t)
	wantUnchanged(t, c)
}

// twoAddressesChanged moves two nodes, each while the other is away: only the third one, which stays where it was, can tell them of each other.
func twoAddressesChanged(t *testing.T, c *harness.Cluster) {
	nodes := members(c)
	for stays := range nodes {
		first, last := nodes[(stays+1)%3], nodes[(stays+2)%3]
		for _, moved := range [][2]*harness.Node{{first, last}, {last, first}} {
			for _, n := range nodes {
				n.Kill9()
			}
			c.Move(t, moved[0])
			c.Launch(t, nodes[stays], moved[0])
			c.Move(t, moved[1])
			moved[1].Launch(t)
			wantUnchanged(t, c)
		}
	}
}

// wipedButIdentity leaves of a node's directory only what tells who it is: it has acknowledged what it does not have any more, and must not act as the node that it was.
func wipedButIdentity(t *testing.T, c *harness.Cluster) {
	third := c.Nodes[2]
	third.Terminate(t)
	whole := third.DataDir
	third.DataDir = t.TempDir()
	for _, file := range []string{"identity", "boot"} {
		data, err := os.ReadFile(filepath.Join(whole, file))
		if err == nil {
			err = os.WriteFile(filepath.Join(third.DataDir, file), data, 0o600)
		}
		if err != nil {
			t.Fatal(err)
		}
	}
	// With nodes to join it would ask those to take it in as a new one (TestDamagedNodeForgetsItsVotes in quorum/quorumtest).
	c.Rename(third, third.Name, nil)
	wantEnd(t, third, exitDamaged, "peers is corrupt: the file is missing from a directory that was used")
	third.DataDir = whole
	third.Launch(t)
	wantUnchanged(t, c)
}

// olderCopy starts a node on a copy of its directory from before its last run.
func olderCopy(t *testing.T, c *harness.Cluster) {
	third := c.Nodes[2]
	third.Terminate(t)
	whole, older := third.DataDir, filepath.Join(t.TempDir(), "older")
	if err := os.CopyFS(older, os.DirFS(whole)); err != nil {
		t.Fatal(err)
	}
	third.Launch(t)
	wantUnchanged(t, c)
	third.Terminate(t)
	third.DataDir = older
	wantEnd(t, third, exitDamaged, "has lost entries that this node had acknowledged")
	third.DataDir = whole
	third.Launch(t)
	wantUnchanged(t, c)
}

// laterSecret restarts a member with a secret that none of the others has: it must not wait for ever for one that does.
func laterSecret(t *testing.T, c *harness.Cluster) {
	third := c.Nodes[2]
	third.Terminate(t)
	c.Rename(third, third.Name, nil, "--cluster-secret", "another secret")
	wantRefused(t, third, "the cluster secret is another one")
	if !strings.Contains(third.Log(), "level=ERROR msg=\"the cluster secret of another node is another one\"") {
		t.Errorf("the log of %s has no error that names the secret", third.Name)
	}
	c.Rename(third, third.Name, nil)
	third.Launch(t)
	wantUnchanged(t, c)
}

// wiped loses a node's directory. As long as the cluster does not know that the old one is dead its name is taken; then the new one takes its place, under another id.
func wiped(t *testing.T, c *harness.Cluster) {
	third := c.Nodes[2]
	before := time.Now()
	third.Kill9()
	if err := os.RemoveAll(third.DataDir); err != nil {
		t.Fatal(err)
	}
	c.Rename(third, third.Name, seeds(c)[:2])
	refusals := 0
	harness.Eventually(t, judgeTimeout, func() error {
		third.Start(t)
		err := third.AwaitAMQP(judgeTimeout)
		if err != nil && !third.Running() {
			refusals++
			if code, _ := third.Process().Wait(time.Second); code != exitRefused {
				t.Errorf("a wiped node ended with exit code %d, want %d", code, exitRefused)
			}
			time.Sleep(200 * time.Millisecond) // as whatever starts it again would do
		}
		return err
	})
	t.Logf("a wiped node was refused %d times and taken in %v after its death", refusals, round(time.Since(before)))
	if refusals > 0 && !strings.Contains(third.Log(), "a node that is not dead has the name rabbit@n3 already") {
		t.Errorf("a wiped node is not told that its old self is not dead")
	}
	wantUnchanged(t, c)
	wantReplaced(t, c, third)
}

// wantReplaced wants the queue to have three replicas again, with the new node's among them, and two nodes to suffice.
func wantReplaced(t *testing.T, c *harness.Cluster, n *harness.Node) {
	t.Helper()
	harness.Eventually(t, serveTimeout, func() error {
		st, err := n.Queue(quorumQueue)
		if err != nil {
			return err
		}
		if len(st.Members) != 3 || len(st.Online) != 3 || !slices.Contains(st.Online, n.Name) {
			return fmt.Errorf("the queue has replicas on %q, of which %q are online, want three with %s among them", st.Members, st.Online, n.Name)
		}
		return nil
	})
	wantKept(t, n)
	second := c.Nodes[1]
	second.Kill9()
	wantKept(t, n)
	second.Launch(t)
	wantUnchanged(t, c)
}

// replacedWhileAway stops a node until it is declared dead and another one has taken its name. When it wakes up it must not act as a member any more.
func replacedWhileAway(t *testing.T, c *harness.Cluster) {
	old := c.Nodes[2]
	signal(t, old, syscall.SIGSTOP)
	n := c.PrepareWith(t, old.Name, seeds(c)[:2])
	wantRefused(t, n, "a node that is not dead has the name rabbit@n3 already")
	harness.Eventually(t, judgeTimeout, func() error {
		n.Start(t)
		err := n.AwaitAMQP(judgeTimeout)
		if err != nil {
			time.Sleep(200 * time.Millisecond)
		}
		return err
	})
	c.Nodes[2], c.Nodes[len(c.Nodes)-1] = n, old
	wantUnchanged(t, c)
	signal(t, old, syscall.SIGCONT)
	code, err := old.Process().Wait(judgeTimeout)
	if err != nil {
		t.Errorf("the node that was replaced: %v", err)
	} else {
		lines := strings.Split(strings.TrimSpace(old.Log()), "\n")
		t.Logf("the node that was replaced ends with exit code %d: %s", code, lines[len(lines)-1])
		if code != exitRefused {
			t.Errorf("the node that was replaced ends with exit code %d, want %d", code, exitRefused)
		}
	}
	wantUnchanged(t, c)
	wantReplaced(t, c, n)
	// And so it is when it starts again.
	if err == nil {
		c.Rename(old, old.Name, nil)
		wantRefused(t, old)
		wantUnchanged(t, c)
	}
}

// joinAtOnce starts two nodes with one name that nobody has. One gets it; the other is refused, and its directory is of use under another name.
func joinAtOnce(t *testing.T, c *harness.Cluster) {
	const name = "rabbit@n4"
	won, lost := c.PrepareWith(t, name, seeds(c)), c.PrepareWith(t, name, seeds(c)[1:])
	won.Start(t)
	lost.Start(t)
	harness.Eventually(t, judgeTimeout, func() error {
		if won.Running() && lost.Running() {
			return fmt.Errorf("two nodes run that asked for the name %s at once", name)
		}
		return nil
	})
	if !won.Running() {
		won, lost = lost, won
	}
	if code, err := lost.Process().Wait(judgeTimeout); err != nil || code != exitRefused {
		t.Errorf("the node that did not get its name: exit code %d, %v, want %d", code, err, exitRefused)
	}
	if want := "a node that is not dead has the name " + name + " already"; !strings.Contains(lost.Log(), want) {
		t.Errorf("the node that did not get its name does not say %q:\n%s", want, lost.LogTail())
	}
	won.Await(t)
	c.Rename(lost, "rabbit@n5", seeds(c))
	lost.Launch(t)
	wantKept(t, won)
	wantKept(t, lost)
}
