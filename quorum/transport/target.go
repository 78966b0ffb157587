package transport

import (
	"encoding/binary"
	"encoding/hex"
	"fmt"
	"strings"
)

// Target is the stable name under which the library knows a node: a UUID of the cluster's and the node's ids side by side. Addresses may change, it does not.
func Target(cluster, node uint64) string {
	var b [16]byte
	binary.BigEndian.PutUint64(b[:8], cluster)
	binary.BigEndian.PutUint64(b[8:], node)
	return fmt.Sprintf("%x-%x-%x-%x-%x", b[:4], b[4:6], b[6:8], b[8:10], b[10:])
}

// ParseTarget takes a target apart. A suffix "#lane" is ignored: a registry may give it to the addresses that it resolves to, so that the library's memory of
// failures, which is by address and shared between messages and snapshots, covers a part of the groups only.
func ParseTarget(target string) (cluster, node uint64, err error) {
	uuid, _, _ := strings.Cut(target, "#")
	b, err := hex.DecodeString(strings.ReplaceAll(uuid, "-", ""))
	if err != nil || len(b) != 16 || Target(binary.BigEndian.Uint64(b[:8]), binary.BigEndian.Uint64(b[8:])) != uuid {
		return 0, 0, fmt.Errorf("transport: %q is no target of a node", target)
	}
	return binary.BigEndian.Uint64(b[:8]), binary.BigEndian.Uint64(b[8:]), nil
}
