package management

import (
	"encoding/json"
	"slices"
	"strconv"
	"strings"
)

// What values the parameters of RabbitMQ's components have. Shovels and federation are not served, but what is kept for them must be right, for it is exported and may be served one day.

// unserved says why parameters of a component have no effect; empty if they have.
func unserved(component string) string {
	switch component {
	case "shovel":
		return "this version has no shovels"
	case "federation-upstream", "federation-upstream-set":
		return "this version has no federation"
	}
	return ""
}

// term is a kind of value that a key may have.
type term uint8

const (
	termText term = iota
	termNumber
	termBool
	termURIs
	termList
	termObject
	termAckMode
	termDeleteAfter
	termProtocol
	termCleanup
	termChannels
	termQueueType
)

var shovelTerms = map[string]term{
	"internal": termBool, "internal_owner": termText, "src-protocol": termProtocol, "dest-protocol": termProtocol, "src-uri": termURIs, "dest-uri": termURIs,
	"src-queue": termText, "src-queue-args": termObject, "src-exchange": termText, "src-exchange-key": termText, "src-consumer-args": termObject, "src-consumer-name": termText,
	"src-prefetch-count": termNumber, "prefetch-count": termNumber, "src-delete-after": termDeleteAfter, "delete-after": termDeleteAfter, "src-delete-after-duration": termNumber,
	"src-predeclared": termBool, "dest-predeclared": termBool, "dest-queue": termText, "dest-queue-args": termObject, "dest-exchange": termText, "dest-exchange-key": termText,
	"add-forward-headers": termBool, "dest-add-forward-headers": termBool, "add-timestamp-header": termBool, "dest-add-timestamp-header": termBool,
	"publish-properties": termObject, "dest-publish-properties": termObject, "ack-mode": termAckMode, "reconnect-delay": termNumber,
	"src-address": termText, "dest-address": termText, "dest-properties": termObject, "dest-application-properties": termObject, "dest-message-annotations": termObject,
}

var upstreamTerms = map[string]term{
	"uri": termURIs, "expires": termNumber, "message-ttl": termNumber, "max-hops": termNumber, "prefetch-count": termNumber, "reconnect-delay": termNumber, "ack-mode": termAckMode,
	"trust-user-id": termBool, "exchange": termText, "queue": termText, "consumer-tag": termText, "queue-type": termQueueType, "bind-nowait": termBool,
	"resource-cleanup-mode": termCleanup, "channel-use-mode": termChannels,
}

// checkParameter judges a value; it returns what is wrong, a line for each problem, in RabbitMQ's words.
func checkParameter(component, name string, value []byte) string {
	var problems []string
	switch component {
	case "shovel":
		v, ok := readTerms(value)
		if !ok {
			return name + " should be an object"
		}
		problems = append(v.problems(name, shovelTerms), v.shovelProblems(name)...)
	case "federation-upstream":
		v, ok := readTerms(value)
		if !ok {
			return name + " should be an object"
		}
		problems = v.problems(name, upstreamTerms)
		problems = append(problems, v.missing(name, "uri")...)
	case "federation-upstream-set":
		var set []json.RawMessage
		if json.Unmarshal(value, &set) != nil {
			return name + " should be a list"
		}
		terms := map[string]term{"upstream": termText}
		for key, t := range upstreamTerms {
			if key != "uri" {
				terms[key] = t
			}
		}
		for _, one := range set {
			v, ok := readTerms(one)
			if !ok {
				return name + " should be a list of objects"
			}
			problems = append(problems, v.problems(name, terms)...)
			problems = append(problems, v.missing(name, "upstream")...)
		}
	default:
		return "component " + component + " not found"
	}
	return strings.Join(problems, "\n")
}

// readTerms reads an object; an empty list counts as an empty one.
func readTerms(value []byte) (v body, ok bool) {
	if string(value) == "[]" {
		return body{}, true
	}
	return v, json.Unmarshal(value, &v) == nil && v != nil
}

// problems tells of keys that are not known and of values that their keys cannot have.
func (b body) problems(name string, known map[string]term) (problems []string) {
	for _, key := range sortedKeys(b) {
		if _, ok := known[key]; !ok {
			problems = append(problems, "Unrecognised terms [{<<\""+key+"\">>,"+erlangJSON(b[key])+"}] in "+name)
		}
	}
	for _, key := range sortedKeys(b) {
		if t, ok := known[key]; ok {
			if text := t.problem(key, b[key]); text != "" {
				problems = append(problems, text)
			}
		}
	}
	return problems
}

func (b body) missing(name string, keys ...string) (problems []string) {
	for _, key := range keys {
		if _, ok := b[key]; !ok {
			problems = append(problems, "Key \""+key+"\" not found in "+name)
		}
	}
	return problems
}

// shovelProblems tells what does not go together.
func (b body) shovelProblems(name string) (problems []string) {
	has := func(key string) bool { _, ok := b[key]; return ok }
	other := func(key string) bool { return has(key) && plainJSON(b[key]) == "amqp10" }
	if !other("src-protocol") {
		switch {
		case has("src-exchange") && has("src-queue"):
			problems = append(problems, "Cannot specify 'src-exchange' and 'src-queue'")
		case !has("src-exchange") && !has("src-queue"):
			problems = append(problems, "Must specify 'src-exchange' or 'src-queue'")
		}
	} else {
		problems = append(problems, b.missing(name, "src-address")...)
	}
	if other("dest-protocol") {
		problems = append(problems, b.missing(name, "dest-address")...)
	} else if has("dest-exchange") && has("dest-queue") {
		problems = append(problems, "Cannot specify 'dest-exchange' and 'dest-queue'")
	}
	return append(problems, b.missing(name, "dest-uri", "src-uri")...)
}

// problem tells why a key cannot have a value; empty if it can.
func (t term) problem(key string, raw json.RawMessage) string {
	var text string
	isText := json.Unmarshal(raw, &text) == nil && string(raw) != "null"
	isNumber := json.Unmarshal(raw, new(float64)) == nil && string(raw) != "null"
	should := func(what string) string { return key + " should be " + what + ", actually was " + erlangJSON(raw) }
	oneOf := func(words ...string) string {
		if isText && slices.Contains(words, text) {
			return ""
		}
		return should("one of [<<\"" + strings.Join(words, "\">>,<<\"") + "\">>]")
	}
	switch t {
	case termText:
		if !isText {
			return should("binary")
		}
	case termNumber:
		if !isNumber {
			return should("a number")
		}
	case termBool:
		if string(raw) != "true" && string(raw) != "false" {
			return should("boolean")
		}
	case termList:
		if json.Unmarshal(raw, new([]json.RawMessage)) != nil {
			return should("list")
		}
	case termObject:
		if _, ok := readTerms(raw); !ok {
			return should("list")
		}
	case termURIs:
		return urisProblem(key, raw)
	case termDeleteAfter:
		if n, err := strconv.ParseFloat(string(raw), 64); (err != nil || n < 0) && text != "never" && text != "queue-length" {
			return should("a number greater than or equal to 0, \"never\" or \"queue-length\"")
		}
	case termAckMode:
		return oneOf("no-ack", "on-publish", "on-confirm")
	case termProtocol:
		return oneOf("amqp091", "amqp10", "local")
	case termCleanup:
		return oneOf("default", "never")
	case termChannels:
		return oneOf("multiple", "single")
	case termQueueType:
		return oneOf("classic", "quorum")
	}
	return ""
}

// urisProblem judges one URI or a list of them.
func urisProblem(key string, raw json.RawMessage) string {
	list := []json.RawMessage{raw}
	if strings.HasPrefix(string(raw), "[") {
		list = nil
		if json.Unmarshal(raw, &list) != nil || len(list) == 0 {
			return key + " should be a list of URIs, actually was " + erlangJSON(raw)
		}
	}
	for _, one := range list {
		var uri string
		if json.Unmarshal(one, &uri) != nil {
			return key + " should be list, actually was " + erlangJSON(one)
		}
		if scheme, _, _ := strings.Cut(uri, ":"); scheme != "amqp" && scheme != "amqps" {
			return "\"" + uri + "\" not a valid URI: {{unexpected_uri_scheme,\"" + scheme + "\"},\"" + uri + "\"}"
		}
	}
	return ""
}

// erlangJSON prints a value as RabbitMQ's errors do, near enough.
func erlangJSON(raw json.RawMessage) string {
	if strings.HasPrefix(string(raw), `"`) {
		return `<<"` + plainJSON(raw) + `">>`
	}
	return plainJSON(raw)
}
