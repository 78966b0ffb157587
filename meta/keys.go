package meta

import (
	"encoding/binary"
	"iter"
	"strings"

	"github.com/warrenmq/warren/internal/cow"
)

// Composite keys of the ordered maps. Every part keeps its order, and a key of the first k parts is a prefix of all keys that begin with them.

// appendPart appends a text so that texts sort as they do alone: 0 becomes 0 255, and 0 1 ends it.
func appendPart(dst []byte, s string) []byte {
	for i := strings.IndexByte(s, 0); i >= 0; i = strings.IndexByte(s, 0) {
		dst = append(append(dst, s[:i]...), 0, 255)
		s = s[i+1:]
	}
	return append(append(dst, s...), 0, 1)
}

// sourceKey orders bindings by source, destination, routing key, arguments.
func sourceKey(b *Binding) string {
	dst := make([]byte, 0, len(b.Source)+len(b.Destination)+len(b.RoutingKey)+len(b.Arguments.raw)+16)
	dst = append(appendPart(dst, b.Source), byte(b.Kind))
	dst = appendPart(appendPart(dst, b.Destination), b.RoutingKey)
	return string(append(dst, b.Arguments.raw...))
}

// destinationKey orders bindings by destination, source, routing key, arguments.
func destinationKey(b *Binding) string {
	dst := make([]byte, 0, len(b.Source)+len(b.Destination)+len(b.RoutingKey)+len(b.Arguments.raw)+16)
	dst = appendPart(append(dst, byte(b.Kind)), b.Destination)
	dst = appendPart(appendPart(dst, b.Source), b.RoutingKey)
	return string(append(dst, b.Arguments.raw...))
}

func fromPrefix(source string) string { return string(appendPart(nil, source)) }

func betweenPrefix(source string, kind DestinationKind, destination string) string {
	return string(appendPart(append(appendPart(nil, source), byte(kind)), destination))
}

func betweenKeyPrefix(source string, kind DestinationKind, destination, routingKey string) string {
	return string(appendPart(appendPart(append(appendPart(nil, source), byte(kind)), destination), routingKey))
}

func toPrefix(kind DestinationKind, destination string) string {
	return string(appendPart([]byte{byte(kind)}, destination))
}

// ownedKey orders exclusive queues by connection; the nonce is left out because a twin incarnation is never served.
func ownedKey(o Owner, id QueueID) string {
	return string(binary.BigEndian.AppendUint64([]byte(ownedPrefix(o)), uint64(id)))
}

func ownedPrefix(o Owner) string {
	dst := binary.BigEndian.AppendUint64(nil, uint64(o.Node))
	dst = binary.BigEndian.AppendUint64(dst, o.Boot.Counter)
	return string(binary.BigEndian.AppendUint64(dst, o.Connection))
}

// homedKey orders transient queues by node and incarnation.
func homedKey(node NodeID, boot uint64, id QueueID) string {
	dst := binary.BigEndian.AppendUint64([]byte(homedPrefix(node)), boot)
	return string(binary.BigEndian.AppendUint64(dst, uint64(id)))
}

func homedPrefix(node NodeID) string {
	return string(binary.BigEndian.AppendUint64(nil, uint64(node)))
}

// homedBoot reads the incarnation out of a homedKey.
func homedBoot(key string) uint64 { return binary.BigEndian.Uint64([]byte(key[8:16])) }

// withPrefix yields the values whose key begins with prefix, in order.
func withPrefix[V any](m cow.Map[string, V], prefix string) iter.Seq2[string, V] {
	return func(yield func(string, V) bool) {
		for key, v := range m.From(prefix) {
			if !strings.HasPrefix(key, prefix) || !yield(key, v) {
				return
			}
		}
	}
}

// anyWithPrefix tells whether there is such a key.
func anyWithPrefix[V any](m cow.Map[string, V], prefix string) bool {
	for range withPrefix(m, prefix) {
		return true
	}
	return false
}

// valuesOf turns pairs into values.
func valuesOf[K, V any](pairs iter.Seq2[K, V]) iter.Seq[V] {
	return func(yield func(V) bool) {
		for _, v := range pairs {
			if !yield(v) {
				return
			}
		}
	}
}

// none yields nothing.
func none[V any](func(V) bool) {}
