package main

import (
	"cmp"
	"fmt"
	"regexp"
	"strconv"
	"strings"

	"github.com/warrenmq/warren/cmd/amqpctl/internal/httpapi"
)

// filterHelp explains --filter.
const filterHelp = "A filter is KEY=TEXT, KEY!=TEXT, KEY~REGEX, or KEY and a number behind <, <=, > or >=; the KEYS are those of the API, dotted for inner ones, and objects\n" +
	"must pass all filters."

// filter is one condition on the objects of a list.
type filter struct {
	key     string
	accepts func(o httpapi.Object) bool
}

// operators are tried from left to right at every place of a filter, longer ones first.
var operators = []string{"!=", ">=", "<=", "=", "~", ">", "<"}

// parseFilter reads a filter. A key that an object does not have is empty text, and no number.
func parseFilter(text string) (filter, error) {
	at := strings.IndexAny(text, "!=~<>")
	for _, operator := range operators {
		if at <= 0 || !strings.HasPrefix(text[at:], operator) {
			continue
		}
		key, operand := strings.TrimSpace(text[:at]), strings.TrimSpace(text[at+len(operator):])
		accepts, err := condition(key, operator, operand)
		return filter{key, accepts}, err
	}
	return filter{}, fmt.Errorf("%q is not a filter, want KEY=TEXT, KEY!=TEXT, KEY~REGEX or KEY>NUMBER", text)
}

func condition(key, operator, operand string) (func(httpapi.Object) bool, error) {
	switch operator {
	case "=":
		return func(o httpapi.Object) bool { return o.Text(key) == operand }, nil
	case "!=":
		return func(o httpapi.Object) bool { return o.Text(key) != operand }, nil
	case "~":
		pattern, err := regexp.Compile(operand)
		if err != nil {
			return nil, fmt.Errorf("the filter on %s: %w", key, err)
		}
		return func(o httpapi.Object) bool { return pattern.MatchString(o.Text(key)) }, nil
	}
	limit, err := strconv.ParseFloat(operand, 64)
	if err != nil {
		return nil, fmt.Errorf("the filter on %s: %q is not a number", key, operand)
	}
	return func(o httpapi.Object) bool {
		f, ok := o.Float(key)
		order := cmp.Compare(f, limit)
		return ok && (order == 0 && len(operator) == 2 || order < 0 && operator[0] == '<' || order > 0 && operator[0] == '>')
	}, nil
}
