package quorum

import (
	"testing"

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
