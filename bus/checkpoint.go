package bus

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"strings"
	"time"

	"github.com/linesman/linesman/bus/bucket"
	"github.com/linesman/linesman/bus/reader"
)

// Checkpoint describes where a normalizer can resume. Every run record covers at least
// RAW up to Raw; later entries are read again.
type Checkpoint struct {
	RawID    string `json:"raw_stream"`        // identifies RAW: a recreated stream has another identity
	EventsID string `json:"event_stream"`      // identifies EVENTS
	RunsID   string `json:"run_stream"`        // identifies RUNS: Raw is void without its records
	Raw      uint64 `json:"raw_seq"`           // entries up to here need not be read again
	Base     uint64 `json:"anew,omitempty"`    // last sequence of EVENTS when RAW was recreated
	Runs     uint64 `json:"run_seq,omitempty"` // RUNS had at least this sequence: if it has not, it lost its end

	// The last cut that was started: EVENTS up to CutEvents contains all that is
	// derived from RAW up to CutRaw. Records of that cut may be stored.
	CutRaw    uint64 `json:"cut_raw_seq"`
	CutEvents uint64 `json:"cut_event_seq"`
	CutPos    string `json:"cut_pos,omitempty"` // [HeaderPos] of CutEvents, if that is after CutRaw
	Late      uint64 `json:"late,omitempty"`    // the first entry up to CutRaw that the record of its run does not have

	// Known is the sequence of EVENTS up to which the run of each event has had a record, in RUNS up to Runs.
	Known uint64 `json:"known_event_seq,omitempty"`
}

// Recorded returns up to where the records have all of RAW, once the cut is stored. An unfinished line is no record.
func (c Checkpoint) Recorded() uint64 {
	if c.Late > 0 {
		return max(c.Raw, c.Late-1)
	}
	return max(c.Raw, c.CutRaw)
}

// CheckpointKey is the key of the normalizer's checkpoint in the state bucket.
const CheckpointKey = "checkpoint"

// errUnknownForm reports a checkpoint that cannot be decoded.
var errUnknownForm = errors.New("cannot decode the checkpoint")

// readCheckpoint reads the normalizer's checkpoint and its revision, 0 if there is none.
func readCheckpoint(ctx context.Context, state *bucket.Bucket) (c Checkpoint, revision uint64, err error) {
	e, err := state.Get(ctx, CheckpointKey)
	switch {
	case err != nil:
		return c, 0, fmt.Errorf("read the checkpoint: %w", err)
	case e.Revision != 0 && json.Unmarshal(e.Value, &c) != nil:
		return Checkpoint{}, 0, errUnknownForm
	}
	return c, e.Revision, nil
}

// EventsKnown returns the sequence of EVENTS, created at a time in Unix nanoseconds, up to which the run of each event
// has a record, or had one, and the last sequence of RUNS, which has them all. Zero: not known.
func (b *Bus) EventsKnown(ctx context.Context, made int64) (events, row uint64, err error) {
	c, _, err := readCheckpoint(ctx, bucket.New(b.js, b.State()))
	id := StreamID(time.Unix(0, made))
	if err != nil || c.EventsID != id && !strings.HasPrefix(c.EventsID, id+".") {
		return 0, 0, err
	}
	stream, err := b.Stream(ctx, bucket.Stream(b.Runs()))
	if err != nil {
		return 0, 0, err
	}
	return c.Known, stream.CachedInfo().State.LastSeq, nil
}

// LastRaw returns the last sequence of RAW.
func (b *Bus) LastRaw(ctx context.Context) (uint64, error) {
	raw, err := b.Stream(ctx, b.Raw())
	if err != nil {
		return 0, err
	}
	return raw.CachedInfo().State.LastSeq, nil
}

// Reached waits until the normalizer has processed and recorded RAW up to seq, for at most
// twenty seconds.
func (b *Bus) Reached(ctx context.Context, seq uint64) error {
	state := bucket.New(b.js, b.State())
	deadline := time.Now().Add(20 * time.Second)
	for {
		c, _, err := readCheckpoint(ctx, state)
		if errors.Is(err, ErrNoStream) {
			return err
		}
		if err == nil && c.Recorded() >= seq { // without a checkpoint 0
			return nil
		}
		if time.Now().After(deadline) {
			if err != nil {
				return err
			}
			return errors.New("the normalizer is not running, or far behind; try again later")
		}
		if err := reader.Sleep(ctx, 100*time.Millisecond); err != nil {
			return err
		}
	}
}

// Lag is the number of messages that each step is behind the previous one.
type Lag struct {
	Raw    uint64 // entries of RAW that are in no stored cut
	Events uint64 // events after that cut: not in RUNS yet
}

// Lag returns the normalizer's lag. Some lag is normal: the checkpoint is stored about
// once a second.
func (b *Bus) Lag(ctx context.Context) (l Lag, err error) {
	c, _, err := readCheckpoint(ctx, bucket.New(b.js, b.State()))
	if err != nil {
		return l, err
	}
	// Read the streams after the checkpoint: what is stored in between counts as lag.
	for _, s := range []struct {
		name string
		done uint64
		lag  *uint64
	}{{b.Raw(), c.Recorded(), &l.Raw}, {b.Names.Events(), c.CutEvents, &l.Events}} {
		stream, err := b.Stream(ctx, s.name)
		if err != nil {
			return l, err
		}
		if last := stream.CachedInfo().State.LastSeq; last > s.done {
			*s.lag = last - s.done
		}
	}
	return l, nil
}
