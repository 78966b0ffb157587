package management

import (
	"math"
	"net/http"
	"strconv"
	"unicode/utf8"
)

// writer writes one JSON answer. Objects are written key by key, so that listing ten thousand queues makes no maps; columns that the client did not ask for are
// skipped where they are written. The same code that writes a row also finds the value to sort it by: see picker.
type writer struct {
	buf   []byte
	comma bool // a value stands before the place that is written next

	// columns says what of the present object is wanted, nil for everything. outer are those of the objects around it.
	columns *columns
	outer   []*columns

	// picking: nothing is written, the value under the only column becomes picked.
	picking bool
	picked  sortKey
	found   bool // it is picked: nothing else is wanted

	// out is where a large answer goes piece by piece; nil keeps it in buf.
	out    http.ResponseWriter
	status int
	sent   bool
	failed bool // the client is gone: what follows is thrown away
}

// streamBytes is how much of an answer is collected before it is sent.
const streamBytes = 64 << 10

// want tells whether a key of the present object is wanted.
func (w *writer) want(key string) bool {
	if w.found {
		return false
	}
	return w.columns == nil || key == "" || w.columns.find(key) != nil
}

// key begins a value. In an array the key is empty. Called only after want.
func (w *writer) key(key string) {
	if w.comma {
		w.buf = append(w.buf, ',')
	}
	w.comma = true
	if key != "" {
		w.buf = appendString(w.buf, key)
		w.buf = append(w.buf, ':')
	}
}

// Uint, Int, Float, Bool, Str, Null write one value. The key is empty for an element of an array.
func (w *writer) Uint(key string, v uint64) {
	switch {
	case !w.want(key):
	case w.picking:
		w.pick(numberKey(float64(v)))
	default:
		w.key(key)
		w.buf = strconv.AppendUint(w.buf, v, 10)
	}
}

func (w *writer) Int(key string, v int64) {
	switch {
	case !w.want(key):
	case w.picking:
		w.pick(numberKey(float64(v)))
	default:
		w.key(key)
		w.buf = strconv.AppendInt(w.buf, v, 10)
	}
}

func (w *writer) Float(key string, v float64) {
	switch {
	case !w.want(key):
	case w.picking:
		w.pick(numberKey(v))
	default:
		w.key(key)
		w.buf = appendFloat(w.buf, v)
	}
}

func (w *writer) Bool(key string, v bool) {
	switch {
	case !w.want(key):
	case w.picking:
		w.pick(boolKey(v))
	default:
		w.key(key)
		w.buf = strconv.AppendBool(w.buf, v)
	}
}

func (w *writer) Str(key, v string) {
	switch {
	case !w.want(key):
	case w.picking:
		w.pick(textKey(v))
	default:
		w.key(key)
		w.buf = appendString(w.buf, v)
	}
}

// Bytes is Str for a large text that needs no copy.
func (w *writer) Bytes(key string, v []byte) {
	switch {
	case !w.want(key):
	case w.picking:
		w.pick(textKey(string(v)))
	default:
		w.key(key)
		w.buf = appendString(w.buf, v)
	}
}

// JSON writes a value that is JSON already.
func (w *writer) JSON(key, v string) {
	switch {
	case !w.want(key):
	case w.picking:
		w.pick(textKey(v))
	default:
		w.key(key)
		w.buf = append(w.buf, v...)
	}
}

func (w *writer) Null(key string) {
	switch {
	case !w.want(key):
	case w.picking:
		w.pick(nullKey)
	default:
		w.key(key)
		w.buf = append(w.buf, "null"...)
	}
}

// Object begins an object and tells whether it is wanted; only then it must be ended with End.
func (w *writer) Object(key string) bool {
	if !w.begin(key) {
		return false
	}
	if !w.picking {
		w.buf = append(w.buf, '{')
	}
	return true
}

// Array begins an array and tells whether it is wanted; only then it must be ended with EndArray. Columns that lead into it are taken from each of its objects.
func (w *writer) Array(key string) bool {
	if !w.begin(key) {
		return false
	}
	if !w.picking {
		w.buf = append(w.buf, '[')
	}
	return true
}

func (w *writer) begin(key string) bool {
	if w.found && key != "" {
		return false
	}
	inner := w.columns
	if key != "" && w.columns != nil {
		c := w.columns.find(key)
		if c == nil {
			return false
		}
		if inner = c.inner; w.picking && inner == nil {
			w.pick(objectKey)
			return false
		}
	}
	if !w.picking {
		w.key(key)
		w.comma = false
	}
	w.outer = append(w.outer, w.columns)
	w.columns = inner
	return true
}

// End ends an object, EndArray an array.
func (w *writer) End()      { w.end('}') }
func (w *writer) EndArray() { w.end(']') }

func (w *writer) end(bracket byte) {
	w.columns = w.outer[len(w.outer)-1]
	w.outer = w.outer[:len(w.outer)-1]
	if w.picking {
		return
	}
	w.buf = append(w.buf, bracket)
	w.comma = true
	if len(w.buf) >= streamBytes && w.out != nil {
		w.flush()
	}
}

// Strings writes an array of strings.
func (w *writer) Strings(key string, list []string) {
	if w.Array(key) {
		for _, s := range list {
			w.Str("", s)
		}
		w.EndArray()
	}
}

// EmptyObject and EmptyArray write {} and [].
func (w *writer) EmptyObject(key string) {
	if w.Object(key) {
		w.End()
	}
}

func (w *writer) EmptyArray(key string) {
	if w.Array(key) {
		w.EndArray()
	}
}

// picker makes a writer that finds the value under a path in what is written to it: the sort key of a row.
func picker(path *columns) *writer { return &writer{picking: true, columns: path, picked: missing} }

// pick takes the value.
func (w *writer) pick(k sortKey) { w.picked, w.found = k, true }

// pickAgain begins with another row.
func (w *writer) pickAgain() { w.picked, w.found = missing, false }

// flush sends what was collected.
func (w *writer) flush() {
	if !w.sent {
		w.sent = true
		w.out.WriteHeader(w.status)
	}
	if !w.failed {
		_, err := w.out.Write(w.buf)
		w.failed = err != nil
	}
	w.buf = w.buf[:0]
}

// finish sends the rest. An answer that fits into the buffer has a length.
func (w *writer) finish() {
	if !w.sent {
		w.out.Header().Set("Content-Length", strconv.Itoa(len(w.buf)))
	}
	w.flush()
}

// appendFloat appends a number that is always a float for readers that tell: 0.0, never 0. What JSON cannot say is 0.0.
func appendFloat(dst []byte, v float64) []byte {
	if math.IsNaN(v) || math.IsInf(v, 0) {
		v = 0
	}
	before := len(dst)
	dst = strconv.AppendFloat(dst, v, 'g', -1, 64)
	for _, c := range dst[before:] {
		if c == '.' || c == 'e' {
			return dst
		}
	}
	return append(dst, ".0"...)
}

const hexDigits = "0123456789abcdef"

// appendString appends a string with its quotes. Bytes that are no UTF-8 become U+FFFD.
func appendString[S ~string | ~[]byte](dst []byte, s S) []byte {
	dst = append(dst, '"')
	plain := 0
	for i := 0; i < len(s); {
		c := s[i]
		if c >= 0x20 && c != '"' && c != '\\' && c < utf8.RuneSelf {
			i++
			continue
		}
		if c >= utf8.RuneSelf {
			r, size := decodeRune(s, i)
			if r != utf8.RuneError || size > 1 {
				i += size
				continue
			}
			dst = append(dst, s[plain:i]...)
			dst = append(dst, "\ufffd"...)
			i++
			plain = i
			continue
		}
		dst = append(dst, s[plain:i]...)
		dst = appendEscaped(dst, c)
		i++
		plain = i
	}
	dst = append(dst, s[plain:]...)
	return append(dst, '"')
}

func decodeRune[S ~string | ~[]byte](s S, i int) (rune, int) {
	return utf8.DecodeRuneInString(string(s[i:min(i+utf8.UTFMax, len(s))]))
}

func appendEscaped(dst []byte, c byte) []byte {
	switch c {
	case '"', '\\':
		return append(dst, '\\', c)
	case '\n':
		return append(dst, '\\', 'n')
	case '\r':
		return append(dst, '\\', 'r')
	case '\t':
		return append(dst, '\\', 't')
	}
	return append(dst, '\\', 'u', '0', '0', hexDigits[c>>4], hexDigits[c&15])
}
