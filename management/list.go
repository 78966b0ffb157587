package management

import (
	"fmt"
	"math/big"
	"net/http"
	"regexp"
	"slices"
	"strconv"
	"strings"

	"github.com/warrenmq/warren/config/limits"
)

// pageItemsDefault is the page size when a page is asked for without one.
const pageItemsDefault = 100

// nameFilterBytesMax bounds the parameter name. Beyond it: 400.
const nameFilterBytesMax = 1024

// page is what the client wants to see of a list.
type page struct {
	number, size int
	// keep tells whether a name passes the filter, nil if there is none.
	keep func(string) bool
}

// listing is what the parameters of a list ask for.
type listing struct {
	columns *columns
	sort    *columns // the path to sort by, nil for the natural order
	reverse bool
	page    *page // nil for all of it
}

func (c *call) listing() (*listing, error) {
	columns, err := c.columns()
	if err != nil {
		return nil, err
	}
	l := &listing{columns: columns, reverse: c.flag("sort_reverse")}
	if key := c.query.Get("sort"); key != "" {
		if l.sort, err = parseSort(key); err != nil {
			return nil, err
		}
	}
	l.page, err = c.page()
	return l, err
}

func parseSort(key string) (*columns, error) {
	if strings.Count(key, ".") >= columnDepthMax || len(key) > nameFilterBytesMax {
		return nil, badRequest("sort is too long")
	}
	path := &columns{}
	path.add(key)
	if len(path.list) == 0 {
		return nil, nil
	}
	return path, nil
}

func invalidPagination() *failure { return badRequest("Pagination parameters are invalid") }

// page reads the parameters of paging, which is on if page is there.
func (c *call) page() (*page, error) {
	if !c.query.Has("page") {
		return nil, nil
	}
	number, size := c.query.Get("page"), "undefined"
	if c.query.Has("page_size") {
		size = c.query.Get("page_size")
	}
	numberOK, sizeOK := wholeNumber(number), size == "undefined" || wholeNumber(size)
	if !numberOK || !sizeOK {
		return nil, invalidPagination()
	}
	p := &page{size: pageItemsDefault}
	var err error
	if p.number, err = strconv.Atoi(number); err != nil && !strings.HasPrefix(number, "-") {
		p.number = 1 << 62 // out of range, and so it will be answered
	}
	if size != "undefined" {
		if p.size, err = strconv.Atoi(size); err != nil {
			p.size = -1
		}
	}
	if p.number < 1 || p.size < 1 || p.size > limits.PageItemsMax {
		return nil, &failure{
			status: http.StatusBadRequest, kind: "invalid_pagination_parameters",
			reason: fmt.Sprintf("Invalid pagination parameters: page number %s, page size %s", tidyNumber(number), tidyNumber(size)),
		}
	}
	p.keep, err = c.nameFilter()
	return p, err
}

// wholeNumber tells whether the text is an integer of any size that still makes sense in an error text.
func wholeNumber(text string) bool {
	if len(text) > 40 {
		return false
	}
	digits := strings.TrimLeft(text, "+-")
	return len(text)-len(digits) <= 1 && digits != "" && strings.Trim(digits, "0123456789") == ""
}

// tidyNumber prints a number as a number: without zeros and a plus in front.
func tidyNumber(text string) string {
	if n, ok := new(big.Int).SetString(text, 10); ok {
		return n.String()
	}
	return text
}

// nameFilter reads name and use_regex: a part of the name, or a regular expression (RE2), both without regard to case.
func (c *call) nameFilter() (func(string) bool, error) {
	text := c.query.Get("name")
	switch {
	case text == "":
		return nil, nil
	case len(text) > nameFilterBytesMax:
		return nil, invalidPagination()
	case c.flag("use_regex"):
		re, err := regexp.Compile("(?i)" + text)
		if err != nil {
			return nil, invalidPagination()
		}
		return re.MatchString, nil
	}
	part := strings.ToLower(text)
	return func(name string) bool { return strings.Contains(strings.ToLower(name), part) }, nil
}

// list answers with rows, which come in their natural order: sorted, filtered, one page of them or all. name is what the parameter name filters by; write writes
// the keys of a row and is called for every row when another key sorts, else for the rows that are sent.
func list[T any](c *call, rows []T, name func(T) string, write func(*writer, T)) error {
	l, err := c.listing()
	if err != nil {
		return err
	}
	total := len(rows)
	if l.page != nil && l.page.keep != nil {
		kept := make([]T, 0, len(rows))
		for _, row := range rows {
			if l.page.keep(name(row)) {
				kept = append(kept, row)
			}
		}
		rows = kept
	}
	rows = sorted(l, rows, write)
	return send(c, l, rows, total, write)
}

// keyed is a row with what it is sorted by.
type keyed[T any] struct {
	key sortKey
	row T
}

func sorted[T any](l *listing, rows []T, write func(*writer, T)) []T {
	if l.sort != nil {
		with := make([]keyed[T], len(rows))
		w := picker(l.sort)
		for i, row := range rows {
			w.pickAgain()
			write(w, row)
			with[i] = keyed[T]{w.picked, row}
		}
		slices.SortStableFunc(with, func(a, b keyed[T]) int { return a.key.compare(b.key) })
		rows = make([]T, len(with))
		for i := range with {
			rows[i] = with[i].row
		}
	}
	if l.reverse {
		if l.sort == nil {
			rows = slices.Clone(rows)
		}
		slices.Reverse(rows)
	}
	return rows
}

// send writes the page or all of the rows. total is how many there were before the filter.
func send[T any](c *call, l *listing, rows []T, total int, write func(*writer, T)) error {
	w := c.answer(http.StatusOK)
	if l.page == nil {
		w.columns = l.columns
		w.Array("")
		writeRows(w, rows, write)
		w.EndArray()
		w.finish()
		return nil
	}
	p := l.page
	// An empty first page is fine, and so is the one right behind the last full page.
	if p.number-1 > len(rows)/p.size {
		return &failure{
			status: http.StatusBadRequest, kind: "page_out_of_range",
			reason: fmt.Sprintf("Page out of range, page: %s page size: %d, len: %d", tidyNumber(c.query.Get("page")), p.size, len(rows)),
		}
	}
	from := min((p.number-1)*p.size, len(rows))
	shown := rows[from:min(from+p.size, len(rows))]
	w.Object("")
	w.Int("filtered_count", int64(len(rows)))
	w.Int("item_count", int64(len(shown)))
	w.Array("items")
	w.columns = l.columns
	writeRows(w, shown, write)
	w.EndArray()
	w.Int("page", int64(p.number))
	w.Int("page_count", int64((len(rows)+p.size-1)/p.size))
	w.Int("page_size", int64(p.size))
	w.Int("total_count", int64(total))
	w.End()
	w.finish()
	return nil
}

func writeRows[T any](w *writer, rows []T, write func(*writer, T)) {
	for _, row := range rows {
		w.Object("")
		write(w, row)
		w.End()
	}
}
