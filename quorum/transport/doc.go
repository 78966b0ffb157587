// Package transport connects the nodes of a cluster: one port of each carries join requests, Raft messages, snapshot streams and links.
//
// It stands between dragonboat, which calls it through quorum's NodeHost (Network is its TransportFactory), package quorum, which opens links and answers joins,
// and the network, which it gets as a net.Listener and a Dial function and about which it assumes nothing else: tests give it one in memory and virtual time.
//
// # Handshake
//
// Every connection begins with four messages (hello.go). Hello: versions, purpose, who calls (node, cluster, boot) and a random challenge. Answer: who is called and
// its challenge, or a refusal. Proof: HMAC-SHA256 under the cluster's secret over everything said before and, with TLS, over a value that only the two ends of this TLS
// connection share. Verdict: the called node's own proof, or a refusal. The caller proves itself first, so that a stranger who calls gets nothing to try secrets on;
// one who is called does, hence secrets must be long. Neither the secret nor anything that can be used a second time crosses the wire. A refusal names its reason
// at both ends.
//
// Without TLS the handshake is all: what follows is neither secret nor protected against somebody who can change bytes on the way. Frames carry a length and a CRC32C
// against accidents (frame.go); a bad frame closes the connection. Nothing that arrives before the handshake ends can make a node spend more than HandshakeBytesMax
// bytes, HandshakeMillis, or one of HandshakesAtOnce places, which newer callers take from older ones.
//
// # Raft
//
// Messages of type Propose are neither sent nor taken: batches reach the leader's node by links (PROTOCOL 1). Types that the library only sends to itself, which it
// would panic about, are not taken either. The library learns where replicas are from messages; it gets the target of the node that proved itself, never a claim. A Raft
// connection never fails as the library sees it: it dials again, and what could not be sent is lost as on any network. Otherwise the library would not send to
// that node for up to 1.5 s after it is back. Snapshot streams share a rate and have a window; the last chunk is sent when the receiver has taken it.
//
// # Links
//
// A link is a connection of frames in both directions, in order, with a bounded queue and signs of life. One goroutine receives. Who dials whom, when, and what frames
// mean is the caller's.
//
// Invariants: no lock is held while waiting for the network; every buffer, queue and wait has a limit in config/limits; handlers of a closed Network are not
// called; the secret is in no log.
//
// Hop before: quorum. Hop after: the transport of another node.
package transport
