package ui

import (
	"strings"
	"testing"
)

// Without npm the broker still has a page that says where to go.
func TestPlaceholder(t *testing.T) {
	page, err := FS.ReadFile("dist/placeholder.html")
	if err != nil {
		t.Fatal(err)
	}
	if !strings.Contains(string(page), "api/overview") {
		t.Error("the placeholder does not point to the HTTP API")
	}
}
