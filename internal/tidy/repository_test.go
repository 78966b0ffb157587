package tidy

import "testing"

// TestRepository runs every rule on the repository.
func TestRepository(t *testing.T) {
	root, err := Root()
	if err != nil {
		t.Fatal(err)
	}
	tree, err := Load(root)
	if err != nil {
		t.Fatal(err)
	}
	if len(tree.Go) < 20 || tree.Module == "" || tree.file("README.md") == nil {
		t.Fatalf("%s does not look like the repository: %d Go files, module %q", root, len(tree.Go), tree.Module)
	}
	for _, rule := range Rules {
		t.Run(rule.Name, func(t *testing.T) {
			found := rule.Check(tree)
			for _, f := range found {
				t.Error(f)
			}
			if len(found) > 0 {
				t.Log("why: " + rule.Why)
			}
		})
	}
}
