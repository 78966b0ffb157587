package quorumtest

import (
	"context"
	"os"
	"os/exec"
	"time"
)

// A process runs one bubble at a time, so tests that shall use all of a machine run themselves again in processes of their own. That also keeps what a seed leaves behind, or runs away with,
// from the next ones.

// workerVariable is set in the environment of such a process.
const workerVariable = "WARREN_SIMULATION_WORKER"

func isWorker() bool { return os.Getenv(workerVariable) != "" }

// runWorker runs a test binary and returns what it printed.
func runWorker(ctx context.Context, binary, env string, args ...string) (string, error) {
	cmd := exec.CommandContext(ctx, binary, args...)
	cmd.Env = append(os.Environ(), workerVariable+"=1", env)
	cmd.WaitDelay = time.Second
	out, err := cmd.CombinedOutput()
	return string(out), err
}

// tailBytes is how much of a failed process's output is shown: a panic prints every goroutine.
const tailBytes = 16 << 10

// tail shortens output in the middle.
func tail(out string) string {
	if len(out) <= tailBytes {
		return out
	}
	return out[:tailBytes/2] + "\n...\n" + out[len(out)-tailBytes/2:]
}
