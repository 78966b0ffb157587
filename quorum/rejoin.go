package quorum

import (
	"context"
	"errors"
	"fmt"
	"path/filepath"
	"time"

	"github.com/warrenmq/warren/config/limits"
	"github.com/warrenmq/warren/internal/codec"
	"github.com/warrenmq/warren/meta"
	"github.com/warrenmq/warren/quorum/link"
	"github.com/warrenmq/warren/quorum/transport"
	"github.com/warrenmq/warren/storage"
	"github.com/warrenmq/warren/storage/datadir"
)

// A node whose files are damaged so that nobody knows what it voted and acknowledged must not be that node any more. If the others can do without it, it joins them under a new id, with an empty directory, and what it had
// is set aside. It asks them first: nothing is moved before a majority has taken it in (docs/adr/0017).

// nodeFiles are what a node keeps under its id in the data directory, but for identity, boots and the list of nodes, which are written anew.
var nodeFiles = []string{"wal", "raft", "queues"}

// rejoin has a node that is damaged as a whole take its place in the cluster anew. The error is the damage, with the reason why that could not be.
func (h *Host) rejoin(ctx context.Context, damaged error) error {
	addresses := h.otherAddresses()
	if len(addresses) == 0 || h.cfg.Cluster.Listener == nil {
		return damaged
	}
	h.log.Error("this node's files are damaged; it asks the others to take it in as a new node", "reason", damaged, "addresses", addresses)
	nodeID := datadir.NewNodeID()
	response, err := h.askAnew(ctx, addresses, codec.AppendBool(h.joinRequest(nodeID), true))
	if err != nil {
		return fmt.Errorf("%w; the other nodes do not take this one in anew: %w", damaged, err)
	}
	r := codec.NewReader(response)
	clusterID := r.Uint64()
	list := readPeers(&r)
	if r.Err() != nil {
		return fmt.Errorf("%w; the answer of another node cannot be read: %w", damaged, r.Err())
	}
	to, err := h.setNodeAside(damaged)
	if err != nil {
		return fmt.Errorf("%w; it cannot be set aside: %w", damaged, err)
	}
	anew := &peers{fs: h.fs, file: filepath.Join(h.cfg.Dir.Path(), peersName), told: make(map[link.Node]toldAddress)}
	if err := anew.save(list); err != nil {
		return err
	}
	if err := h.cfg.Dir.Renew(nodeID, clusterID); err != nil { // last: until then the directory is one that was used and has no log
		return err
	}
	h.log.Warn("the node's files were set aside, and it is a new node of its cluster", "directory", to, "id", uint64(list.Self))
	return nil
}

// KnowsOthers tells whether a data directory is that of a node which has others.
func KnowsOthers(fsys storage.FS, dir string) bool {
	p, err := openPeers(fsys, dir)
	return err == nil && p.joined() && len(p.nodes()) > 1
}

// otherAddresses are where other nodes of the cluster may be reached, as far as can still be read, and as configured.
func (h *Host) otherAddresses() (list []string) {
	if known, err := openPeers(h.fs, h.cfg.Dir.Path()); err == nil {
		for _, n := range known.nodes() {
			if n.ID != known.self() && n.Address != h.cfg.Address {
				list = append(list, n.Address)
			}
		}
	}
	return append(list, h.cfg.Cluster.Join...)
}

// askAnew asks the nodes at the addresses, one after the other, to take this node in, for a bounded time: the cluster must have declared the old one dead.
func (h *Host) askAnew(ctx context.Context, addresses []string, request []byte) ([]byte, error) {
	ctx, cancel := context.WithTimeout(ctx, limits.RejoinMillis*time.Millisecond)
	defer cancel()
	for try := 0; ; try++ {
		addr := addresses[try%len(addresses)]
		response, err := transport.Join(ctx, h.cfg.Cluster.Dial, addr, h.cfg.Cluster.Secret, h.cfg.Cluster.TLS, request)
		if err == nil {
			return response, nil
		}
		var no *transport.JoinError
		if errors.As(err, &no) && (no.Text == errNeeded.Error() || no.Text == errVoter.Error()) {
			return nil, err
		}
		h.log.Warn("a node did not take this one in anew yet", "address", addr, "error", err)
		if h.wait(limits.LinkRedialMillis*time.Millisecond, ctx.Done()) != nil {
			return nil, err
		}
	}
}

// What a cluster gives up with a node only a person can give up.
var (
	errNeeded = errors.New("queues would have no majority without its replicas: restore its files, or have it join with an empty directory")
	errVoter  = errors.New("it votes on the catalogue, and a new node would not: restore its files, or have it join with an empty directory")
)

// mayReplace tells whether the cluster of a view can do without a node of that name: of every queue the other members are a majority, which can take in new ones, and a new node has its vote on the catalogue.
func mayReplace(v *meta.View, name string) error {
	n := v.NodeNamed(name)
	if n == nil {
		return nil
	}
	for other := range v.Nodes() {
		if n.ID <= catalogueVotersMax && other.ID >= catalogueVotersMax {
			return errVoter
		}
	}
	for q := range v.QueuesByID() {
		if _, member := q.MemberOn(n.ID); member && q.Durable && len(q.Members)-1 <= len(q.Members)/2 {
			return errNeeded
		}
	}
	return nil
}

// setNodeAside moves what a node kept to the quarantine, with a text that says why.
func (h *Host) setNodeAside(damaged error) (string, error) {
	dir := h.cfg.Dir.Path()
	to := filepath.Join(quarantineDir(h), fmt.Sprintf("node-%d", h.clock.nowMillis()))
	if err := storage.EnsureDir(h.fs, to); err != nil {
		return "", err
	}
	if err := storage.WriteFile(h.fs, damageName(to, 0), h.newDamage(0, damaged).encode()); err != nil {
		return "", err
	}
	for _, name := range nodeFiles {
		from := filepath.Join(dir, name)
		if _, err := h.fs.Stat(from); err != nil {
			continue // it had none, or an attempt before this one moved it
		}
		if err := h.fs.Rename(from, filepath.Join(to, name)); err != nil {
			return "", err
		}
	}
	if err := storage.CopyDir(h.fs, dir, to, func(name string) bool { return name == "identity" || name == "boot" || name == peersName }); err != nil {
		return "", err
	}
	return to, storage.Fatal(h.fs.SyncDir(dir))
}
