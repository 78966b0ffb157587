package meta

import (
	"slices"
	"strings"
	"testing"

	"github.com/warrenmq/warren/amqp"
)

func TestSchedule(t *testing.T) {
	long := make([]amqp.Value, 65)
	for i := range long {
		long[i] = amqp.Int32(1)
	}
	for _, c := range []struct {
		v    amqp.Value
		want []uint64
	}{
		{amqp.Array(amqp.Int32(0), amqp.Int64(5000), amqp.Int64(tenYearsMillis)), []uint64{0, 5000, tenYearsMillis}},
		{amqp.Longstr("500ms,10s, 1m ,2h,1d,7"), []uint64{500, 10_000, 60_000, 7_200_000, 86_400_000, 7}},
		{amqp.Longstr("0"), []uint64{0}},
		{amqp.Array(long[:64]...), slices.Repeat([]uint64{1}, 64)},
		{amqp.Array(long...), nil},
		{amqp.Longstr(strings.Repeat("1,", 64) + "1"), nil},
		{amqp.Array(), nil},
		{amqp.Array(amqp.Int32(-1)), nil},
		{amqp.Array(amqp.Int64(tenYearsMillis + 1)), nil},
		{amqp.Array(amqp.Longstr("1s")), nil},
		{amqp.Longstr(""), nil},
		{amqp.Longstr("1s,"), nil},
		{amqp.Longstr("1 s"), nil},
		{amqp.Longstr("-1s"), nil},
		{amqp.Longstr("1.5s"), nil},
		{amqp.Longstr("1w"), nil},
		{amqp.Longstr("ms"), nil},
		{amqp.Longstr("3651d"), nil},
		{amqp.Longstr("99999999999999999999"), nil},
		{amqp.Int32(1000), nil},
	} {
		got, ok := Schedule(c.v)
		if ok != (c.want != nil) || ok && !slices.Equal(got, c.want) {
			t.Errorf("%v: %v %t, want %v", c.v, got, ok, c.want)
		}
	}
}
