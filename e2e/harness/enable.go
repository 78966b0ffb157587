package harness

import (
	"os"
	"os/exec"
	"strings"
	"testing"
)

// Variables of the environment that steer the tests. None is a setting of the broker.
const (
	envEnabled  = "WARREN_E2E"          // 1: run the tests that start processes; full: also the long ones
	envStrict   = "WARREN_E2E_STRICT"   // 1: a missing foreign client is a failure
	envServer   = "WARREN_BIN"          // the server binary; else it is built
	envControl  = "AMQPCTL_BIN"         // the amqpctl binary; else it is built
	envAMQPURL  = "WARREN_E2E_AMQP_URL" // a broker that runs already: its AMQP
	envHTTPURL  = "WARREN_E2E_HTTP_URL" // and its management API
	envPython   = "WARREN_E2E_PYTHON"   // the Python that has pika
	systemsPyth = "/usr/bin/python3"    // where Debian's python3-pika is found, whatever else the path has
)

// Need skips a test unless the environment asks for tests with real processes.
func Need(t testing.TB) {
	t.Helper()
	if e := os.Getenv(envEnabled); e != "1" && e != full {
		t.Skipf("real processes are tested with %s=1, as `make test` does", envEnabled)
	}
}

const full = "full"

// Full tells whether long tests are wanted.
func Full() bool { return os.Getenv(envEnabled) == full }

// External tells whether the tests run against a broker that they did not start.
func External() bool { return os.Getenv(envAMQPURL) != "" }

// NeedProcess skips a test that kills or configures its broker when that broker belongs to somebody else.
func NeedProcess(t testing.TB) {
	t.Helper()
	Need(t)
	if External() {
		t.Skipf("the broker of %s is not ours to stop", envAMQPURL)
	}
}

// Tool returns the path of a foreign program, or skips the test.
func Tool(t testing.TB, name string) string {
	t.Helper()
	path, err := exec.LookPath(name)
	if err != nil {
		Missing(t, "%s is not installed", name)
	}
	return path
}

// Python returns the interpreter that has pika, and further modules if asked, or skips the test.
func Python(t testing.TB, modules ...string) string {
	t.Helper()
	python := os.Getenv(envPython)
	if python == "" {
		python = systemsPyth
	}
	for _, module := range append([]string{"pika"}, modules...) {
		if out, err := exec.Command(python, "-c", "import "+module).CombinedOutput(); err != nil {
			Missing(t, "%s has no %s (Debian: python3-%[2]s): %s", python, module, strings.TrimSpace(string(out)))
		}
	}
	return python
}

// Missing skips, or fails where everything is meant to be installed.
func Missing(t testing.TB, format string, args ...any) {
	t.Helper()
	if os.Getenv(envStrict) == "1" {
		t.Fatalf(format, args...)
	}
	t.Skipf(format, args...)
}
