package console

import (
	"errors"
	"time"

	"github.com/linesman/linesman/api"
	"github.com/linesman/linesman/runs"
)

// Moment reads a time as people write it: a duration before now such as 2h, a date, or a time
// of RFC 3339. A date is midnight in the time zone of now.
func Moment(text string, now time.Time) (runs.Time, error) {
	if d, err := time.ParseDuration(text); err == nil {
		if d < 0 {
			return 0, errors.New("must not be negative")
		}
		return api.TimeOf(now.Add(-d)), nil
	}
	for _, form := range []string{time.DateOnly, time.RFC3339} {
		if t, err := time.ParseInLocation(form, text, now.Location()); err == nil {
			return api.TimeOf(t), nil
		}
	}
	return 0, errors.New("must be a duration such as 2h, a date such as 2026-05-31, or a time of RFC 3339")
}
