package terminal

import (
	"bytes"
	"os"
	"testing"
)

// Neither a file, nor a pipe, nor /dev/null, which is a character device, is a terminal.
func TestWhatIsNoTerminal(t *testing.T) {
	null, err := os.Open(os.DevNull)
	if err != nil {
		t.Fatal(err)
	}
	defer null.Close()
	r, w, err := os.Pipe()
	if err != nil {
		t.Fatal(err)
	}
	defer r.Close()
	defer w.Close()
	for name, f := range map[string]any{"buffer": new(bytes.Buffer), "null": null, "pipe": w, "nothing": nil} {
		if width, height := Size(f); Is(f) || width != 0 || height != 0 || Colour(f) {
			t.Errorf("%s was taken for a terminal", name)
		}
	}
}
