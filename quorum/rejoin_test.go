package quorum

import (
	"errors"
	"testing"

	"github.com/warrenmq/warren/internal/machine"
	"github.com/warrenmq/warren/meta"
	"github.com/warrenmq/warren/storage"
	"github.com/warrenmq/warren/storage/storagetest"
)

// TestForeignDirectoryJoinsAnew: only the directory of a node that has others may be set aside for a new identity.
func TestForeignDirectoryJoinsAnew(t *testing.T) {
	fsys := storagetest.New()
	if err := storage.EnsureDir(fsys, "/data"); err != nil {
		t.Fatal(err)
	}
	if KnowsOthers(fsys, "/data") {
		t.Error("a directory without a list of nodes has others")
	}
	p, err := openPeers(fsys, "/data")
	if err != nil {
		t.Fatal(err)
	}
	list := peerList{Self: 1, Founder: true, Nodes: []peerNode{{ID: 1, Token: 11, Address: "a:1"}}}
	if err := p.save(list); err != nil || KnowsOthers(fsys, "/data") {
		t.Errorf("a node alone has others: %v", err)
	}
	list.Nodes = append(list.Nodes, peerNode{ID: 2, Token: 12, Address: "b:1"})
	if err := p.save(list); err != nil || !KnowsOthers(fsys, "/data") {
		t.Errorf("a node of two has no others: %v", err)
	}
	fsys.Flip("/data/peers", 40)
	if KnowsOthers(fsys, "/data") {
		t.Error("a damaged list is believed")
	}
}

// TestReplacedNodeLeavesNoMajority: a node is not replaced unasked if the other members of one of its queues could not agree on a new one.
func TestReplacedNodeLeavesNoMajority(t *testing.T) {
	for _, tt := range []struct {
		replicas []meta.NodeID
		want     error
	}{
		{[]meta.NodeID{2}, errNeeded}, {[]meta.NodeID{1, 2}, errNeeded}, {[]meta.NodeID{1, 2, 3}, nil}, {[]meta.NodeID{1, 2, 3, 4}, nil}, {[]meta.NodeID{1, 3}, nil},
	} {
		m, index := meta.New(), uint64(0)
		apply := func(cmd meta.Command) {
			index++
			if r, _ := m.Apply(machine.Stamp{Index: index}, &cmd, nil); r.Reason != meta.ReasonOK {
				t.Fatalf("command %d: %v", index, r.Reason)
			}
		}
		for i, name := range []string{"rabbit@a", "rabbit@b", "rabbit@c", "rabbit@d"} {
			apply(meta.Command{Op: meta.OpRegisterNode, Node: meta.Node{Name: name, Token: uint64(i) + 1}})
		}
		apply(meta.Command{Op: meta.OpPutVHost, VHost: meta.VHost{Name: "/"}})
		apply(meta.Command{Op: meta.OpDeclareQueue, Queue: meta.Queue{VHost: "/", Name: "q", Durable: true, Replicas: tt.replicas}})
		if err := mayReplace(m.View(), "rabbit@b"); !errors.Is(err, tt.want) {
			t.Errorf("replicas on %v: %v, want %v", tt.replicas, err, tt.want)
		}
	}
}
