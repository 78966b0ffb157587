package harness

import (
	"fmt"
	"os"
	"os/exec"
	"path"
	"path/filepath"
	"strings"
	"sync"
	"testing"
)

// module is what the binaries are built from, whatever directory a test runs in.
const module = "github.com/warrenmq/warren"

// builds remembers what this process has built, by command and tags.
var builds struct {
	mu   sync.Mutex
	dir  string
	done map[string]built
}

type built struct {
	path string
	err  error
}

// Main runs the tests of a package and removes what they built. TestMain of every package that starts processes calls it.
func Main(m *testing.M) {
	code := m.Run()
	RemoveBuilds()
	os.Exit(code)
}

// RemoveBuilds removes the binaries that this process built.
func RemoveBuilds() {
	builds.mu.Lock()
	defer builds.mu.Unlock()
	if builds.dir != "" {
		os.RemoveAll(builds.dir)
		builds.dir, builds.done = "", nil
	}
}

// ServerBinary returns the path of the server, built once unless WARREN_BIN names one.
func ServerBinary() (string, error) { return commandBinary(envServer, "warren") }

// ControlBinary returns the path of amqpctl, built once unless AMQPCTL_BIN names one.
func ControlBinary() (string, error) { return commandBinary(envControl, "amqpctl") }

func commandBinary(env, command string) (string, error) {
	if path := os.Getenv(env); path != "" {
		if _, err := os.Stat(path); err != nil {
			return "", fmt.Errorf("%s: %w", env, err)
		}
		return filepath.Abs(path)
	}
	return Build(command)
}

// Build builds a command of cmd/ with build tags, once in this process.
func Build(command string, tags ...string) (string, error) {
	return BuildPackage("cmd/"+command, tags...)
}

// BuildPackage builds the command in a folder of the module with build tags, once in this process.
func BuildPackage(folder string, tags ...string) (string, error) {
	builds.mu.Lock()
	defer builds.mu.Unlock()
	key := folder + " " + strings.Join(tags, ",")
	if b, ok := builds.done[key]; ok {
		return b.path, b.err
	}
	if builds.dir == "" {
		dir, err := os.MkdirTemp("", "warren-e2e-")
		if err != nil {
			return "", err
		}
		builds.dir, builds.done = dir, map[string]built{}
	}
	target := filepath.Join(builds.dir, fmt.Sprintf("%s%d", path.Base(folder), len(builds.done)))
	root, err := moduleRoot()
	if err != nil {
		return "", err
	}
	cmd := exec.Command("go", "build", "-tags", strings.Join(tags, ","), "-o", target, module+"/"+folder)
	cmd.Dir = root // e2e/perf is another module, whose own go.sum does not suffice
	out, err := cmd.CombinedOutput()
	if err != nil {
		err = fmt.Errorf("go build of %s: %w\n%s", folder, err, out)
	}
	builds.done[key] = built{path: target, err: err}
	return target, err
}

// moduleRoot is the folder of the broker's module.
func moduleRoot() (string, error) {
	out, err := exec.Command("go", "list", "-m", "-f", "{{.Dir}}", module).CombinedOutput()
	if err != nil {
		return "", fmt.Errorf("go list -m %s: %w\n%s", module, err, out)
	}
	return strings.TrimSpace(string(out)), nil
}
