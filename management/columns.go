package management

import (
	"cmp"
	"strings"
)

// columns is what a client wants of an object: the keys of the parameter columns, dotted ones as a tree.
type columns struct {
	list []column
}

// column is one key. inner is what is wanted of the object under it, nil for all of it.
type column struct {
	name  string
	inner *columns
}

// Bounds of the parameters sort and columns. Beyond them: 400.
const (
	columnsMax     = 256
	columnDepthMax = 8
)

func (c *columns) find(name string) *column {
	for i := range c.list {
		if c.list[i].name == name {
			return &c.list[i]
		}
	}
	return nil
}

// add notes a dotted name. A name wanted whole stays so.
func (c *columns) add(name string) {
	head, rest, dotted := strings.Cut(name, ".")
	if head == "" {
		return
	}
	have := c.find(head)
	switch {
	case have == nil:
		c.list = append(c.list, column{name: head})
		have = &c.list[len(c.list)-1]
		if dotted && strings.Trim(rest, ".") != "" {
			have.inner = &columns{}
			have.inner.add(rest)
		}
	case have.inner == nil:
	case !dotted:
		have.inner = nil
	default:
		have.inner.add(rest)
	}
}

// parseColumns reads the parameter columns.
func parseColumns(text string) (*columns, error) {
	names := strings.Split(text, ",")
	if len(names) > columnsMax {
		return nil, badRequestf("columns has more than %d names", columnsMax)
	}
	c := &columns{}
	for _, name := range names {
		if strings.Count(name, ".") >= columnDepthMax {
			return nil, badRequestf("a name in columns has more than %d parts", columnDepthMax)
		}
		c.add(name)
	}
	return c, nil
}

// sortKey is a value to sort by. Values of different types sort as in RabbitMQ: numbers, then words as true and null, objects and arrays, strings. A key that a
// row does not have sorts as 0.
type sortKey struct {
	rank   uint8
	number float64
	text   string
}

const (
	rankNumber uint8 = iota
	rankWord
	rankObject
	rankText
)

// missing is the key of a value that is not there: it sorts as 0.
var missing = numberKey(0)

var nullKey = sortKey{rank: rankWord, text: "null"}
var objectKey = sortKey{rank: rankObject}

func numberKey(v float64) sortKey { return sortKey{number: v} }
func textKey(v string) sortKey    { return sortKey{rank: rankText, text: v} }

func boolKey(v bool) sortKey {
	if v {
		return sortKey{rank: rankWord, text: "true"}
	}
	return sortKey{rank: rankWord, text: "false"}
}

func (a sortKey) compare(b sortKey) int {
	return cmp.Or(cmp.Compare(a.rank, b.rank), cmp.Compare(a.number, b.number), cmp.Compare(a.text, b.text))
}
