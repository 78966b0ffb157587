package management

import (
	"net/http"
	"net/url"
	"slices"
	"strings"
)

// The paths of RabbitMQ's API need a router of their own: names are percent-encoded segments, among them %2F for the default virtual host, which the library's
// patterns take for a separator; a slash at the end is allowed everywhere; nothing is cleaned.

// paramsMax is how many variable segments a path has at most.
const paramsMax = 5

// segmentsMax bounds the segments of a path; a longer one names nothing.
const segmentsMax = 16

// handler answers a request whose user is known. An error becomes the answer.
type handler func(c *call) error

// route is one path with its methods.
type route struct {
	// path is the path as the list of operations has it, params are the names of its variable segments.
	path    string
	params  []string
	methods map[string]*operation
}

// node is a place in the tree of paths.
type node struct {
	fixed    map[string]*node
	variable *node
	route    *route
}

// methodOrder is how Allow lists them.
var methodOrder = [...]string{http.MethodGet, http.MethodPut, http.MethodPost, http.MethodDelete}

// add adds an operation.
func (n *node) add(op *operation) {
	var params []string
	for segment := range strings.SplitSeq(op.path, "/") {
		variable := strings.HasPrefix(segment, "{")
		next := n.variable
		if variable {
			params = append(params, strings.Trim(segment, "{}"))
		} else {
			next = n.fixed[segment]
		}
		if next == nil {
			next = &node{}
			if variable {
				n.variable = next
			} else {
				if n.fixed == nil {
					n.fixed = make(map[string]*node)
				}
				n.fixed[segment] = next
			}
		}
		n = next
	}
	if n.route == nil {
		n.route = &route{path: op.path, params: params, methods: make(map[string]*operation)}
	}
	n.route.methods[op.method] = op
}

// allow is the header Allow.
func (r *route) allow() (list string) {
	if r.methods[http.MethodGet] != nil {
		list = "HEAD, "
	}
	for _, method := range methodOrder {
		if r.methods[method] != nil {
			list += method + ", "
		}
	}
	return list + http.MethodOptions
}

// crlf takes out what AMQP names cannot have: the broker, as RabbitMQ, drops it from the names of queues and exchanges.
var crlf = strings.NewReplacer("\r", "", "\n", "")

// tidy makes the names in params those that objects have, and tells whether none is empty.
func (r *route) tidy(params *[paramsMax]string) bool {
	for i, name := range r.params {
		switch name {
		case "queue", "exchange", "source", "destination":
			if params[i] = crlf.Replace(params[i]); params[i] == "" {
				return false
			}
		}
	}
	return true
}

// find walks the escaped path. Fixed segments come before variable ones; an empty segment matches nothing but the end.
func (n *node) find(escaped string, params *[paramsMax]string) *route {
	path := strings.TrimPrefix(escaped, "/")
	if path != "" && strings.HasSuffix(path, "/") {
		path = path[:len(path)-1]
	}
	if strings.Count(path, "/") >= segmentsMax {
		return nil
	}
	var segments [segmentsMax]string
	count := 0
	for segment := range strings.SplitSeq(path, "/") {
		text, err := url.PathUnescape(segment)
		if err != nil || text == "" {
			return nil
		}
		segments[count] = text
		count++
	}
	return n.match(segments[:count], params, 0)
}

func (n *node) match(segments []string, params *[paramsMax]string, filled int) *route {
	if len(segments) == 0 {
		return n.route
	}
	if next := n.fixed[segments[0]]; next != nil {
		if r := next.match(segments[1:], params, filled); r != nil {
			return r
		}
	}
	if n.variable == nil || filled == paramsMax {
		return nil
	}
	params[filled] = segments[0]
	return n.variable.match(segments[1:], params, filled+1)
}

// knownMethods are those that a path may refuse with 405; others are not implemented at all.
var knownMethods = []string{
	http.MethodGet, http.MethodHead, http.MethodPut, http.MethodPost, http.MethodDelete, http.MethodOptions, http.MethodPatch, http.MethodTrace,
}

// pickMethod returns the operation of a method, or the status that is answered without one.
func (r *route) pickMethod(method string) (*operation, int) {
	if method == http.MethodHead {
		method = http.MethodGet
	}
	if op := r.methods[method]; op != nil {
		return op, 0
	}
	switch {
	case method == http.MethodOptions:
		return nil, http.StatusOK
	case slices.Contains(knownMethods, method):
		return nil, http.StatusMethodNotAllowed
	}
	return nil, http.StatusNotImplemented
}
