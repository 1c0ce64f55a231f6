package reader

import "time"

// StallAfter sets how long a consumer may deliver nothing until it has stalled.
func (w *Watch) StallAfter(d time.Duration) { w.stall = d }
