package quorum

import (
	"errors"
	"fmt"
	"hash/crc32"
	"io/fs"
	"path/filepath"
	"sync"

	"github.com/warrenmq/warren/internal/codec"
	"github.com/warrenmq/warren/meta"
	"github.com/warrenmq/warren/quorum/link"
	"github.com/warrenmq/warren/quorum/transport"
	"github.com/warrenmq/warren/storage"
)

// peers is what the node knows of the others without its catalogue: a file that follows the catalogue, so that a restarted node finds the cluster whatever became of the
// node that it once joined through. Addresses that nodes tell over links override it until the catalogue has newer ones: where the leader is, a node cannot learn from a catalogue that it
// does not reach.
type peers struct {
	fs   storage.FS
	file string

	mu   sync.Mutex
	list peerList
	told map[link.Node]toldAddress
}

// peerList is the content of the file.
type peerList struct {
	// Self is this node's id in the catalogue, Founder says that it began the cluster: that decides how its replica of the catalogue starts.
	Self    meta.NodeID
	Founder bool
	Nodes   []peerNode
}

// peerNode is one node of the cluster. Token is what the transport knows it by.
type peerNode struct {
	ID      meta.NodeID
	Token   link.Node
	Address string
}

// toldAddress is where a node listens since a start of it: the later start is right. The counter of starts is as in meta.Boot.
type toldAddress struct {
	start   uint64
	address string
}

const (
	peersName         = "peers"
	peersFileVersion  = 1
	peersFileBytesMax = 1 << 20
	peerBytesMin      = 10
	toldBytesMin      = 10
)

func openPeers(fsys storage.FS, dir string) (*peers, error) {
	p := &peers{fs: fsys, file: filepath.Join(dir, peersName), told: make(map[link.Node]toldAddress)}
	src, err := storage.ReadFile(fsys, p.file, peersFileBytesMax)
	if errors.Is(err, fs.ErrNotExist) {
		return p, nil
	}
	if err != nil {
		return nil, err
	}
	if p.list, err = decodePeers(src); err != nil {
		return nil, &storage.CorruptError{File: p.file, OffsetBytes: -1, Reason: err.Error()}
	}
	return p, nil
}

// joined tells whether this node is part of a cluster already.
func (p *peers) joined() bool {
	p.mu.Lock()
	defer p.mu.Unlock()
	return p.list.Self != 0
}

// self is this node's id in the catalogue.
func (p *peers) self() meta.NodeID {
	p.mu.Lock()
	defer p.mu.Unlock()
	return p.list.Self
}

// founder tells whether this node began the cluster.
func (p *peers) founder() bool {
	p.mu.Lock()
	defer p.mu.Unlock()
	return p.list.Founder
}

// save makes list the file's content if it differs.
func (p *peers) save(list peerList) error {
	p.mu.Lock()
	defer p.mu.Unlock()
	next, old := encodePeers(&list), encodePeers(&p.list)
	if string(next) == string(old) {
		return nil
	}
	if err := storage.WriteFile(p.fs, p.file, next); err != nil {
		return err
	}
	p.list = list
	return nil
}

// follow brings the file what the catalogue says.
func (p *peers) follow(v *meta.View) error {
	list := peerList{Self: p.self(), Founder: p.founder()}
	for n := range v.Nodes() {
		if !n.Replaced {
			list.Nodes = append(list.Nodes, peerNode{ID: n.ID, Token: link.Node(n.Token), Address: n.Address})
		}
	}
	if err := p.save(list); err != nil {
		return err
	}
	p.mu.Lock()
	defer p.mu.Unlock()
	for n := range v.Nodes() {
		token := link.Node(n.Token)
		switch {
		case n.Replaced:
			delete(p.told, token) // another node listens there: groups that still have a replica of the old one would dial it again and again
		case n.Boot.Counter >= p.told[token].start:
			p.told[token] = toldAddress{n.Boot.Counter, n.Address} // a node registers its address before its incarnation
		}
	}
	return nil
}

// tell notes where a node listens, and returns whether that is news.
func (p *peers) tell(node link.Node, a toldAddress) bool {
	p.mu.Lock()
	defer p.mu.Unlock()
	if a.address == "" || a.start <= p.told[node].start {
		return false
	}
	p.told[node] = a
	return true
}

// appendTold encodes what is known of where nodes listen.
func (p *peers) appendTold(dst []byte) []byte {
	p.mu.Lock()
	defer p.mu.Unlock()
	dst = codec.AppendUvarint(dst, uint64(len(p.told)))
	for node, a := range p.told {
		dst = appendTold(dst, node, a)
	}
	return dst
}

func appendTold(dst []byte, node link.Node, a toldAddress) []byte {
	return codec.AppendString(codec.AppendUvarint(codec.AppendUint64(dst, uint64(node)), a.start), a.address)
}

// nodes returns the others.
func (p *peers) nodes() []peerNode {
	p.mu.Lock()
	defer p.mu.Unlock()
	return append([]peerNode(nil), p.list.Nodes...)
}

// token returns what the transport knows a node by.
func (p *peers) token(id meta.NodeID) (link.Node, bool) {
	p.mu.Lock()
	defer p.mu.Unlock()
	for _, n := range p.list.Nodes {
		if n.ID == id {
			return n.Token, true
		}
	}
	return 0, false
}

// id returns the catalogue's id of a node.
func (p *peers) id(token link.Node) (meta.NodeID, bool) {
	p.mu.Lock()
	defer p.mu.Unlock()
	for _, n := range p.list.Nodes {
		if n.Token == token {
			return n.ID, true
		}
	}
	return 0, false
}

// resolve returns the present address of a transport target.
func (p *peers) resolve(target string) (string, error) {
	_, token, err := transport.ParseTarget(target)
	if err != nil {
		return "", err
	}
	p.mu.Lock()
	defer p.mu.Unlock()
	if a, ok := p.told[link.Node(token)]; ok {
		return a.address, nil
	}
	for _, n := range p.list.Nodes {
		if n.Token == link.Node(token) {
			return n.Address, nil
		}
	}
	return "", fmt.Errorf("quorum: node %016x is not known", token)
}

func encodePeers(l *peerList) []byte {
	dst := codec.AppendUint8(nil, peersFileVersion)
	dst = appendPeers(dst, l)
	return codec.AppendUint32(dst, crc32.ChecksumIEEE(dst))
}

func appendPeers(dst []byte, l *peerList) []byte {
	dst = codec.AppendUvarint(dst, uint64(l.Self))
	dst = codec.AppendBool(dst, l.Founder)
	dst = codec.AppendUvarint(dst, uint64(len(l.Nodes)))
	for _, n := range l.Nodes {
		dst = codec.AppendUvarint(dst, uint64(n.ID))
		dst = codec.AppendUint64(dst, uint64(n.Token))
		dst = codec.AppendString(dst, n.Address)
	}
	return dst
}

func readPeers(r *codec.Reader) peerList {
	l := peerList{Self: meta.NodeID(r.Uvarint()), Founder: r.Bool()}
	for range r.Count(peerBytesMin) {
		l.Nodes = append(l.Nodes, peerNode{ID: meta.NodeID(r.Uvarint()), Token: link.Node(r.Uint64()), Address: r.String()})
	}
	return l
}

func decodePeers(src []byte) (peerList, error) {
	if len(src) < 5 {
		return peerList{}, codec.ErrTruncated
	}
	body := src[:len(src)-4]
	r := codec.NewReader(src[len(src)-4:])
	if r.Uint32() != crc32.ChecksumIEEE(body) {
		return peerList{}, errors.New("the file does not match its checksum")
	}
	r = codec.NewReader(body)
	if v := r.Uint8(); v != peersFileVersion {
		return peerList{}, fmt.Errorf("the file has version %d, this version of Warren reads %d", v, peersFileVersion)
	}
	l := readPeers(&r)
	return l, r.Err()
}
