package bus

import (
	"context"
	"fmt"

	"github.com/linesman/linesman/bus/bucket"
	"github.com/linesman/linesman/bus/reader"
)

// Keys of the state bucket for the export of traces.
const (
	TelemetryLease    = "telemetry"          // the lease for exporting
	TelemetryPosition = "telemetry_position" // how far EVENTS were exported
)

// telemetryStore stores how far EVENTS were exported.
type telemetryStore struct{ *Bus }

// TelemetryStore returns the store of the position of the exporter.
func (b *Bus) TelemetryStore() telemetryStore { return telemetryStore{b} }

// Lead calls f while it holds the lease for exporting, like [Push.Lead].
func (t telemetryStore) Lead(ctx context.Context, f func(context.Context) error) error {
	return t.lead(ctx, TelemetryLease, "traces are not exported", "traces are exported again", f)
}

// Position returns the stored position and its revision; nil and 0: there is none.
func (t telemetryStore) Position(ctx context.Context) (value []byte, revision uint64, err error) {
	e, err := t.get(ctx, t.State(), TelemetryPosition)
	return e.Value, e.Revision, err
}

// SetPosition replaces the position with a revision, and returns the new revision. The error
// is that of [bucket.Moved] if another exporter has replaced it.
func (t telemetryStore) SetPosition(ctx context.Context, value []byte, revision uint64) (uint64, error) {
	next, err := bucket.New(t.js, t.State()).Put(ctx, TelemetryPosition, value, nil, bucket.If(revision))
	if err != nil {
		return 0, fmt.Errorf("store the position of the export: %w", err)
	}
	return next, nil
}

// Stored returns the identity of EVENTS, and its first and last sequences. First is last+1
// if it is empty.
func (t telemetryStore) Stored(ctx context.Context) (id string, first, last uint64, err error) {
	s, err := reader.Look(ctx, t.jsPub, t.Names.Events())
	if err != nil {
		return "", 0, 0, fmt.Errorf("stream %s: %w", t.Names.Events(), err)
	}
	state := s.CachedInfo().State
	first = state.FirstSeq
	if state.Msgs == 0 {
		first = state.LastSeq + 1
	}
	return StreamID(s.CachedInfo().Created), first, state.LastSeq, nil
}
