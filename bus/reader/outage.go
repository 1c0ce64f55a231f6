package reader

import (
	"slices"

	"go.uber.org/zap"
)

// Outage logs that something is waited for, each reason once, and that it works again. It is
// for one goroutine.
type Outage struct {
	Log          *zap.Logger
	Began, Ended string // messages; Ended "": the caller logs the end
	Fields       []zap.Field

	reasons []string // those that were logged
}

// maxReasons bounds the reasons that are logged of one outage.
const maxReasons = 8

// Failed logs the beginning of an outage, or another reason for it, and returns whether it did.
func (o *Outage) Failed(why string) bool {
	if len(o.reasons) >= maxReasons || slices.Contains(o.reasons, why) {
		return false
	}
	o.reasons = append(o.reasons, why)
	o.Log.Warn(o.Began, append(slices.Clone(o.Fields), zap.String("why", why))...)
	return true
}

// Over logs the end of an outage, if its beginning was logged.
func (o *Outage) Over() {
	if o.reasons != nil && o.Ended != "" {
		o.Log.Info(o.Ended, o.Fields...)
	}
	o.reasons = nil
}
