package runs

// LineTime returns the time of the next line, which was captured at captured: the time in
// the line of a session log, at, else that of the line before, if the log has times, else
// captured. Times do not decrease, and are never after the capture.
func (r *Record) LineTime(at, captured int64) int64 {
	if at <= 0 && r.WrittenAt == 0 {
		return captured
	}
	at = min(at, captured)
	if r.WrittenAt == 0 {
		r.StartedAt = min(r.StartedAt, at)
	}
	r.WrittenAt = max(r.WrittenAt, at)
	r.ActiveAt = r.WrittenAt
	return r.WrittenAt
}
