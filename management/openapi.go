package management

import (
	"encoding/json"
	"net/http"
	"strconv"
	"strings"
)

// openAPI is GET /openapi.json.
func openAPI(c *call) error {
	c.w.Header().Set("Content-Type", "application/json")
	_, _ = c.w.Write(c.s.document)
	return nil
}

// object is a JSON object of the document.
type object = map[string]any

// openAPIDocument describes operations as OpenAPI 3.1 does.
func openAPIDocument(list []operation, version, prefix string) []byte {
	paths := make(object)
	for i := range list {
		op := &list[i]
		path := "/" + op.path
		if paths[path] == nil {
			paths[path] = object{}
		}
		paths[path].(object)[strings.ToLower(op.method)] = op.describe()
	}
	document := object{
		"openapi": "3.1.0",
		"info": object{
			"title": productName + " HTTP API", "version": version,
			"description": "RabbitMQ's management HTTP API, version " + RabbitMQVersion + ". Names in paths are percent-encoded; the default virtual host is %2F. " +
				"A user needs one of the tags management, policymaker, monitoring, administrator.",
		},
		"servers":  []any{object{"url": prefix + "/api"}},
		"security": []any{object{"password": []any{}}, object{"session": []any{}}},
		"paths":    paths,
		"components": object{
			"securitySchemes": object{
				"password": object{"type": "http", "scheme": "basic"},
				"session":  object{"type": "apiKey", "in": "cookie", "name": sessionCookie, "description": "Made by POST /login. Methods other than GET need the header " + csrfHeader + ", too."},
			},
			"parameters": usualParameters(),
			"schemas": object{
				"Error": object{
					"type": "object", "required": []any{"error", "reason"},
					"properties": object{"error": object{"type": "string"}, "reason": object{"type": []any{"string", "array"}, "items": object{"type": "string"}}},
				},
				"Page": object{
					"type": "object", "required": []any{"items", "page", "page_count", "page_size", "total_count", "filtered_count", "item_count"},
					"properties": object{
						"items": object{"type": "array", "items": object{"type": "object"}}, "page": integer, "page_count": integer, "page_size": integer,
						"total_count": integer, "filtered_count": integer, "item_count": integer,
					},
				},
			},
			"responses": object{"Error": object{"description": "Refused", "content": jsonOf(object{"$ref": "#/components/schemas/Error"})}},
		},
	}
	out, err := json.Marshal(document)
	if err != nil {
		panic(err) // strings and numbers only
	}
	return append(out, '\n')
}

var integer = object{"type": "integer"}

func jsonOf(schema object) object { return object{"application/json": object{"schema": schema}} }

// usual are the query parameters that many operations have, by what takes them.
var usual = []struct {
	takes                   takes
	name, kind, description string
}{
	{columned | paged, "columns", "string", "Keys to show, with commas between, dots for keys of inner objects"},
	{paged, "page", "integer", "Number of a page; without it the answer is an array of all"},
	{paged, "page_size", "integer", "Items on a page, 100 if not given"},
	{paged, "name", "string", "Part of the names to show, or a regular expression"},
	{paged, "use_regex", "boolean", "Takes name for a regular expression"},
	{paged, "sort", "string", "Key to sort by"},
	{paged, "sort_reverse", "boolean", "Turns the order around"},
	{charted, "lengths_age", "integer", "Seconds that samples of queue lengths reach back"},
	{charted, "lengths_incr", "integer", "Seconds between them"},
	{charted, "msg_rates_age", "integer", "Seconds that samples of message counts reach back"},
	{charted, "msg_rates_incr", "integer", "Seconds between them"},
	{charted, "data_rates_age", "integer", "Seconds that samples of bytes reach back"},
	{charted, "data_rates_incr", "integer", "Seconds between them"},
	{charted, "node_stats_age", "integer", "Seconds that samples of nodes reach back"},
	{charted, "node_stats_incr", "integer", "Seconds between them"},
	{plain, "disable_stats", "boolean", "Leaves numbers out"},
	{plain, "enable_queue_totals", "boolean", "But for how many messages there are"},
}

func usualParameters() object {
	all := make(object)
	for _, p := range usual {
		all[p.name] = object{"name": p.name, "in": "query", "description": p.description, "schema": object{"type": p.kind}}
	}
	return all
}

// describe is the operation's object.
func (op *operation) describe() object {
	var parameters []any
	words := []string{strings.ToLower(op.method)}
	for segment := range strings.SplitSeq(op.path, "/") {
		if name := strings.Trim(segment, "{}"); name != segment {
			parameters = append(parameters, object{"name": name, "in": "path", "required": true, "schema": object{"type": "string"}})
		}
		words = append(words, strings.NewReplacer("{", "", "}", "", "-", "_", ".", "_").Replace(segment))
	}
	for _, p := range usual {
		if op.takes&p.takes != 0 {
			parameters = append(parameters, object{"$ref": "#/components/parameters/" + p.name})
		}
	}
	for _, f := range fields(op.query) {
		parameters = append(parameters, object{"name": f.name, "in": "query", "schema": f.schema()})
	}
	tag, _, _ := strings.Cut(op.path, "/")
	out := object{"summary": op.summary, "operationId": strings.Join(words, "_"), "tags": []any{tag}, "responses": op.responses()}
	if parameters != nil {
		out["parameters"] = parameters
	}
	if op.body != "" {
		out["requestBody"] = object{"content": jsonOf(bodySchema(op.body))}
	}
	switch op.access {
	case anybody:
		out["security"] = []any{}
	case monitors:
		out["description"] = "Needs the tag monitoring or administrator."
	case administrators:
		out["description"] = "Needs the tag administrator."
	}
	return out
}

// responses are what an operation answers.
func (op *operation) responses() object {
	statuses := []int{http.StatusNoContent}
	switch {
	case op.status != 0:
		statuses = []int{op.status}
	case op.method == get:
		statuses = []int{http.StatusOK}
	case op.method == put:
		statuses = []int{http.StatusCreated, http.StatusNoContent}
	}
	out := object{"default": object{"$ref": "#/components/responses/Error"}}
	for _, status := range statuses {
		answer := object{"description": http.StatusText(status)}
		if status == http.StatusOK {
			schema := object{"type": []any{"object", "array", "string"}}
			if op.takes&paged != 0 {
				schema = object{"oneOf": []any{object{"type": "array", "items": object{"type": "object"}}, object{"$ref": "#/components/schemas/Page"}}}
			}
			answer["content"] = jsonOf(schema)
		}
		out[strconv.Itoa(status)] = answer
	}
	return out
}

// field is a parameter or a key of a request's object.
type field struct {
	name, kind string
	required   bool
}

// fields reads "name type, name! type".
func fields(text string) (list []field) {
	for part := range strings.SplitSeq(text, ", ") {
		if name, kind, ok := strings.Cut(part, " "); ok {
			bare := strings.TrimSuffix(name, "!")
			list = append(list, field{bare, kind, bare != name})
		}
	}
	return list
}

func (f field) schema() object {
	switch f.kind {
	case "bool":
		return object{"type": "boolean"}
	case "int":
		return integer
	case "strings":
		return object{"type": "array", "items": object{"type": "string"}}
	case "any":
		return object{}
	}
	return object{"type": f.kind}
}

func bodySchema(text string) object {
	properties, required := make(object), []any{}
	for _, f := range fields(text) {
		properties[f.name] = f.schema()
		if f.required {
			required = append(required, f.name)
		}
	}
	out := object{"type": "object", "properties": properties}
	if len(required) > 0 {
		out["required"] = required
	}
	return out
}
