package amqp

import (
	"bytes"
	"os"
	"os/exec"
	"path/filepath"
	"testing"
)

// TestGeneratedFilesAreCurrent generates once more and finds the same bytes: the table and the code agree, and generating is deterministic.
func TestGeneratedFilesAreCurrent(t *testing.T) {
	goTool, err := exec.LookPath("go")
	if err != nil {
		t.Skip("the go tool is not here")
	}
	dir := t.TempDir()
	if out, err := exec.Command(goTool, "run", "spec/gen.go", "-out", dir).CombinedOutput(); err != nil {
		t.Fatalf("%v\n%s", err, out)
	}
	files, err := filepath.Glob("*_gen.go")
	if err != nil || len(files) != 4 {
		t.Fatalf("generated files are %v, %v", files, err)
	}
	for _, file := range files {
		have, err := os.ReadFile(file)
		if err != nil {
			t.Fatal(err)
		}
		want, err := os.ReadFile(filepath.Join(dir, file))
		if err != nil || !bytes.Equal(have, want) {
			t.Errorf("%s is stale: run go generate ./amqp (%v)", file, err)
		}
	}
}
