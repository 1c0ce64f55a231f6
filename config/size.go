package config

import (
	"math"
	"strconv"
	"strings"
	"time"
)

// Size is a number of bytes. Its text is a whole number with an optional unit: 512,
// 64KiB, 8MiB, 1GiB. Decimal units (kB, MB, GB, TB) can be parsed, too. Fractions
// are not allowed, so that every size is exact.
type Size int64

var units = []struct {
	name  string
	bytes int64
}{
	{"TiB", 1 << 40}, {"GiB", 1 << 30}, {"MiB", 1 << 20}, {"KiB", 1 << 10},
	{"TB", 1e12}, {"GB", 1e9}, {"MB", 1e6}, {"kB", 1e3},
	{"B", 1},
}

// parseSize parses a size. Units are not case-sensitive.
func parseSize(number string) (Size, error) {
	factor := int64(1)
	for _, u := range units {
		cut := len(number) - len(u.name)
		if cut > 0 && strings.EqualFold(number[cut:], u.name) {
			number, factor = strings.TrimSpace(number[:cut]), u.bytes
			break
		}
	}
	n, err := strconv.ParseUint(number, 10, 63)
	if err == nil && n > math.MaxInt64/uint64(factor) {
		err = strconv.ErrRange
	}
	return Size(n) * Size(factor), err
}

// String returns the size with the largest binary unit that divides it: 8MiB.
func (s Size) String() string {
	for _, u := range units[:4] {
		if s != 0 && int64(s)%u.bytes == 0 {
			return strconv.FormatInt(int64(s)/u.bytes, 10) + u.name
		}
	}
	return strconv.FormatInt(int64(s), 10)
}

// shortDuration returns the text of d without trailing zero units: 72h instead of
// 72h0m0s.
func shortDuration(d time.Duration) string {
	text := d.String()
	if strings.HasSuffix(text, "m0s") {
		text = strings.TrimSuffix(text, "0s")
	}
	if strings.HasSuffix(text, "h0m") {
		text = strings.TrimSuffix(text, "0m")
	}
	return text
}
