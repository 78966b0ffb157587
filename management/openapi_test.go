package management

import (
	"encoding/json"
	"net/http"
	"slices"
	"strings"
	"testing"
)

// routesOf lists what the router knows: METHOD path.
func (n *node) routesOf(list []string) []string {
	if n.route != nil {
		for method := range n.route.methods {
			list = append(list, method+" /"+n.route.path)
		}
	}
	for _, below := range n.fixed {
		list = below.routesOf(list)
	}
	if n.variable != nil {
		list = n.variable.routesOf(list)
	}
	return list
}

// TestOpenAPIIsTheRouter: each route is in the document, and nothing else is.
func TestOpenAPIIsTheRouter(t *testing.T) {
	f := newFixture(t)
	w := f.do("-", http.MethodGet, "/api/openapi.json", "")
	var document struct {
		OpenAPI string
		Servers []struct{ URL string }
		Paths   map[string]map[string]struct {
			Summary, OperationID string
			Parameters           []struct {
				Name, In string
				Required bool
				Ref      string `json:"$ref"`
			}
			Responses map[string]any
		}
		Components map[string]map[string]any
	}
	if err := json.Unmarshal(w.Body.Bytes(), &document); err != nil || w.Code != 200 || document.OpenAPI != "3.1.0" || document.Servers[0].URL != "/api" {
		t.Fatal(err, w.Code, document.OpenAPI, document.Servers)
	}
	var documented []string
	ids := make(map[string]bool)
	for path, methods := range document.Paths {
		for method, op := range methods {
			documented = append(documented, strings.ToUpper(method)+" "+path)
			if op.Summary == "" || op.OperationID == "" || ids[op.OperationID] || len(op.Responses) < 2 {
				t.Errorf("%s %s: %+v", method, path, op)
			}
			ids[op.OperationID] = true
			declared := 0
			for _, p := range op.Parameters {
				switch {
				case p.Ref != "":
					if document.Components["parameters"][strings.TrimPrefix(p.Ref, "#/components/parameters/")] == nil {
						t.Errorf("%s %s: %s is not there", method, path, p.Ref)
					}
				case p.In == "path":
					declared++
					if !p.Required || !strings.Contains(path, "{"+p.Name+"}") {
						t.Errorf("%s %s: parameter %s", method, path, p.Name)
					}
				}
			}
			if declared != strings.Count(path, "{") {
				t.Errorf("%s %s: %d parameters of the path", method, path, declared)
			}
		}
	}
	routed := f.s.routes.routesOf(nil)
	slices.Sort(routed)
	slices.Sort(documented)
	if !slices.Equal(routed, documented) || len(routed) != len(operations) {
		t.Errorf("%d routes, %d in the document, %d operations\nrouted     %v\ndocumented %v", len(routed), len(documented), len(operations), routed, documented)
	}
}

// TestEveryOperationIsRouted: what the document says is answered by the router, with the login that it says.
func TestEveryOperationIsRouted(t *testing.T) {
	f := newFixture(t)
	for i := range operations {
		op := &operations[i]
		path := "/api/" + strings.NewReplacer("{", "", "}", "").Replace(op.path)
		w := f.do("-", op.method, path, "")
		if wantsLogin := op.access != anybody; (w.Code == http.StatusUnauthorized && w.Header().Get("WWW-Authenticate") != "") != wantsLogin || w.Code == http.StatusNotFound {
			t.Errorf("%s %s without a login: %d", op.method, path, w.Code)
		}
		w = f.do("mgt", op.method, path, "")
		if refused := strings.Contains(w.Body.String(), "Not administrator user") || strings.Contains(w.Body.String(), "Not monitor user"); refused != (op.access == administrators || op.access == monitors) {
			t.Errorf("%s %s as a manager: %d %s", op.method, path, w.Code, w.Body)
		}
		if w = f.do("guest", op.method, path, ""); w.Code >= 500 && w.Code != http.StatusServiceUnavailable {
			t.Errorf("%s %s: %d %s", op.method, path, w.Code, w.Body)
		}
	}
}
