package meta

import (
	"strconv"
	"strings"

	"github.com/warrenmq/warren/amqp"
)

// scheduleMax is how many times a schedule may have.
const scheduleMax = 64

// scheduleUnits are what the times of a schedule that is text may be given in, in milliseconds. Those whose end is that of another one come first.
var scheduleUnits = [...]struct {
	name   string
	millis int64
}{{"ms", 1}, {"s", 1000}, {"m", 60_000}, {"h", 3_600_000}, {"d", 86_400_000}, {"", 1}}

// Schedule reads a list of times in milliseconds, each up to ten years: an array of integers, or text like "500ms,10s,1m" with the units ms, s, m, h and d, or none for milliseconds.
func Schedule(v amqp.Value) (millis []uint64, ok bool) {
	if list, is := v.AsArray(); is {
		for _, x := range list {
			n, isInt := x.AsInt64()
			if !isInt || n < 0 || n > tenYearsMillis {
				return nil, false
			}
			millis = append(millis, uint64(n))
		}
	} else {
		text, isText := v.AsString()
		if !isText {
			return nil, false
		}
		for _, part := range strings.Split(text, ",") {
			n, valid := timeOf(strings.TrimSpace(part))
			if !valid {
				return nil, false
			}
			millis = append(millis, uint64(n))
		}
	}
	return millis, len(millis) > 0 && len(millis) <= scheduleMax
}

// timeOf reads one time of a schedule.
func timeOf(text string) (millis int64, ok bool) {
	for _, u := range scheduleUnits {
		digits, found := strings.CutSuffix(text, u.name)
		if !found {
			continue
		}
		n, err := strconv.ParseUint(digits, 10, 63)
		if err != nil || int64(n) > tenYearsMillis/u.millis {
			return 0, false
		}
		return int64(n) * u.millis, true
	}
	return 0, false
}
