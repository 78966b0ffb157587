package cluster

import (
	"os/exec"
	"path/filepath"
	"testing"
	"time"

	"github.com/warrenmq/warren/e2e/harness"
)

// certify has amqpctl make an authority in a new directory, and the certificate of a node that is known by host. It returns the settings that name the files.
func certify(t *testing.T, host string) []string {
	t.Helper()
	ctl, err := harness.ControlBinary()
	if err != nil {
		t.Fatal(err)
	}
	dir := filepath.Join(t.TempDir(), "tls")
	if out, err := exec.Command(ctl, "cluster", "init-tls", "--dir", dir, "node="+host).CombinedOutput(); err != nil {
		t.Fatalf("amqpctl cluster init-tls: %v: %s", err, out)
	}
	return []string{
		"--set", "cluster.ssl.certfile=" + filepath.Join(dir, "node.pem"), "--set", "cluster.ssl.keyfile=" + filepath.Join(dir, "node.key"), "--set", "cluster.ssl.cacertfile=" + filepath.Join(dir, "ca.pem"),
	}
}

// TestTLSBetweenNodes has nodes that speak TLS among each other, and others that must not be spoken to.
func TestTLSBetweenNodes(t *testing.T) {
	t.Parallel()
	c := harness.StartCluster(t, 3, harness.ClusterOptions{Args: certify(t, "127.0.0.1"), Patience: pick(2*time.Minute, 5*time.Minute)})
	ch := c.Nodes[0].Channel(t)
	declareReplicated(t, ch, quorumQueue, harness.Quorum)
	if err := ch.Confirm(false); err != nil {
		t.Fatal(err)
	}
	harness.PublishConfirmed(t, ch, "", quorumQueue, []byte("kept"))
	wantUnchanged(t, c)

	t.Run("a node without TLS", func(t *testing.T) {
		plain := harness.NewCluster(t, harness.ClusterOptions{})
		wantRefused(t, plain.PrepareWith(t, "rabbit@plain", []string{c.Nodes[0].Advertised}), "it wants TLS")
	})
	t.Run("a node of another authority", func(t *testing.T) {
		stranger := harness.NewCluster(t, harness.ClusterOptions{Args: certify(t, "127.0.0.1")})
		wantRefused(t, stranger.PrepareWith(t, "rabbit@stranger", []string{c.Nodes[0].Advertised}), "unknown authority")
	})
	t.Run("a node's certificate is for another host", func(t *testing.T) {
		moved := harness.NewCluster(t, harness.ClusterOptions{Args: certify(t, "127.0.0.2")})
		first := moved.PrepareWith(t, "rabbit@m1", nil)
		moved.Launch(t, first)
		wantRefused(t, moved.PrepareWith(t, "rabbit@m2", []string{first.Advertised}), "127.0.0.2", "not 127.0.0.1")
	})
	wantUnchanged(t, c)
}
