//go:build !queuemutants

package queue

import (
	"os/exec"
	"testing"
)

// TestPlantedBugsAreFound builds the package with planted bugs and lets the model test look for each (see TestMutants). A model that finds none of them would prove nothing.
func TestPlantedBugsAreFound(t *testing.T) {
	if testing.Short() {
		t.Skip("needs a build of its own")
	}
	out, err := exec.Command("go", "test", "-count=1", "-tags=queuemutants", "-run=^TestMutants$", ".").CombinedOutput()
	if err != nil {
		t.Fatalf("%v\n%s", err, out)
	}
}
