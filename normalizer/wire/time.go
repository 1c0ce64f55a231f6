package wire

import (
	"github.com/linesman/linesman/normalizer/scan"
	"github.com/linesman/linesman/runs"
)

// Time returns the time in v in Unix milliseconds, rounded down: a text in the form of RFC
// 3339 in UTC, such as 2026-11-21T09:42:15.438Z, after 1970 and with at most nine digits
// after the point. It is 0 for any other value.
func Time(v scan.Value) int64 {
	const longest = len("2006-01-02T15:04:05.000000000Z")
	s := v.Raw
	if !v.IsString() || v.Escaped || len(s) == 0 || len(s) > longest || s[len(s)-1] != 'Z' {
		return 0
	}
	at, err := runs.ParseTime(s)
	if err != nil {
		return 0
	}
	return max(int64(at), 0)
}
