package meta

import (
	"strconv"
	"strings"

	"github.com/warrenmq/warren/amqp"
)

// Declaring something again is judged here, with RabbitMQ's words for the two values. A verdict changes no state, so it may differ between releases.

// judgeExchange answers the declaration of an exchange that exists.
func judgeExchange(old, in *Exchange) Reply {
	switch {
	case old.Type != in.Type:
		return inequivalent("type", quotedAtom(in.Type), quotedAtom(old.Type))
	case old.Durable != in.Durable:
		return inequivalentBool("durable", in.Durable, old.Durable)
	case old.AutoDelete != in.AutoDelete:
		return inequivalentBool("auto_delete", in.AutoDelete, old.AutoDelete)
	case old.Internal != in.Internal:
		return inequivalentBool("internal", in.Internal, old.Internal)
	}
	if r := judgeArgument(argAlternateExchange, in.Arguments, old.Arguments); r.Reason != ReasonOK {
		return r
	}
	return Reply{Existed: true}
}

// judgeQueue answers the declaration of a queue that exists. in went through settled.
func judgeQueue(old, in *Queue) Reply {
	switch {
	case old.Exclusive != in.Exclusive || old.Exclusive && old.Owner != in.Owner:
		return Reply{Reason: ReasonExclusiveLocked, ID: uint64(old.ID)}
	case old.Durable != in.Durable:
		return inequivalentBool("durable", in.Durable, old.Durable)
	case old.AutoDelete != in.AutoDelete:
		return inequivalentBool("auto_delete", in.AutoDelete, old.AutoDelete)
	}
	relaxed := old.Type != in.Type
	if relaxed && (!servedType(old.Type) || !servedType(in.Type)) {
		if r := judgeArgument(argQueueType, in.Arguments, old.Arguments); r.Reason != ReasonOK {
			return r
		}
	}
	for i := range argTable {
		a := &argTable[i]
		if a.Scope&QueueScope == 0 || !a.Equivalence || relaxed && !a.Relaxed {
			continue
		}
		if r := judgeArgument(a.Name, in.Arguments, old.Arguments); r.Reason != ReasonOK {
			return r
		}
	}
	return Reply{Existed: true, ID: uint64(old.ID)}
}

func servedType(name string) bool { return name == TypeClassic || name == TypeQuorum }

func judgeArgument(key string, in, old Arguments) Reply {
	if in == old {
		return Reply{}
	}
	got, hasNew := in.Get(key)
	had, hasOld := old.Get(key)
	switch {
	case !hasNew && !hasOld:
		return Reply{}
	case !hasNew:
		return inequivalent(key, "none", typedValue(had))
	case !hasOld:
		return inequivalent(key, typedValue(got), "none")
	case sameValue(got, had):
		return Reply{}
	}
	return inequivalent(key, bareValue(got), bareValue(had))
}

// sameValue compares values and not types: whole numbers of every kind, texts of both kinds.
func sameValue(a, b amqp.Value) bool {
	if a.Equal(b) {
		return true
	}
	if s, ok := textOf(a); ok {
		t, ok := textOf(b)
		return ok && s == t
	}
	n, ok := wholeOf(a)
	m, both := wholeOf(b)
	return ok && both && n == m
}

func textOf(v amqp.Value) (string, bool) {
	if s, ok := v.AsString(); ok {
		return s, true
	}
	return v.AsBytes()
}

func wholeOf(v amqp.Value) (int64, bool) {
	if n, ok := v.AsTimestamp(); ok {
		return int64(n), n <= intMax
	}
	return v.AsInt64()
}

func inequivalent(field, received, current string) Reply {
	return Reply{Reason: ReasonInequivalentArg, Field: field, Received: received, Current: current}
}

func inequivalentBool(field string, received, current bool) Reply {
	return inequivalent(field, quotedBool(received), quotedBool(current))
}

func quotedBool(b bool) string { return "'" + strconv.FormatBool(b) + "'" }

// typedValue prints a value of which the other side has none.
func typedValue(v amqp.Value) string {
	return "the value " + bareValue(v) + " of type '" + v.Type() + "'"
}

// bareValue prints a value that differs from another one.
func bareValue(v amqp.Value) string { return "'" + plainValue(v) + "'" }

func plainValue(v amqp.Value) string {
	if s, ok := textOf(v); ok {
		return s
	}
	if b, ok := v.AsBool(); ok {
		return strconv.FormatBool(b)
	}
	if n, ok := v.AsInt64(); ok {
		return strconv.FormatInt(n, 10)
	}
	if n, ok := v.AsTimestamp(); ok {
		return strconv.FormatUint(n, 10)
	}
	if v.IsVoid() {
		return "undefined"
	}
	if t := v.Tag(); t == amqp.TagFloat32 || t == amqp.TagFloat64 {
		return plainFloat(v)
	}
	return v.String()
}

// plainFloat prints a number with a point in any case.
func plainFloat(v amqp.Value) string {
	_, s, _ := strings.Cut(strings.TrimSuffix(v.String(), ")"), "(")
	if !strings.ContainsAny(s, ".eIN") {
		s += ".0"
	}
	return s
}

// quotedAtom prints a name as Erlang prints an atom within quotes: one with other than letters, digits, _ and @ carries quotes of its own.
func quotedAtom(name string) string {
	plain := name != "" && name[0] >= 'a' && name[0] <= 'z'
	for i := 0; i < len(name) && plain; i++ {
		c := name[i]
		plain = c >= 'a' && c <= 'z' || c >= 'A' && c <= 'Z' || c >= '0' && c <= '9' || c == '_' || c == '@'
	}
	if plain {
		return "'" + name + "'"
	}
	return "''" + name + "''"
}
