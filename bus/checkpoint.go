package bus

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"time"

	"github.com/linesman/linesman/bus/bucket"
)

// Checkpoint describes where a normalizer can resume. Every run record covers at least
// RAW up to Raw; later entries are read again.
type Checkpoint struct {
	RawID    string `json:"raw_stream"`        // identifies RAW: a recreated stream has another identity
	EventsID string `json:"event_stream"`      // identifies EVENTS
	RunsID   string `json:"run_stream"`        // identifies RUNS: Raw is void without its records
	Raw      uint64 `json:"raw_seq"`           // entries up to here need not be read again
	Anew     uint64 `json:"anew,omitempty"`    // last sequence of EVENTS when RAW was recreated
	Runs     uint64 `json:"run_seq,omitempty"` // RUNS had at least this sequence: if it has not, it lost its end

	// The last cut that was started: EVENTS up to CutEvents contains all that is
	// derived from RAW up to CutRaw. Records of that cut may be stored.
	CutRaw    uint64 `json:"cut_raw_seq"`
	CutEvents uint64 `json:"cut_event_seq"`
}

// CheckpointKey is the key of the normalizer's checkpoint in the state bucket.
const CheckpointKey = "checkpoint"

// errUnknownForm reports a checkpoint that cannot be decoded.
var errUnknownForm = errors.New("cannot decode the checkpoint")

// checkpoint reads the normalizer's checkpoint and its revision, 0 if there is none.
func (b *Bus) checkpoint(ctx context.Context) (c Checkpoint, revision uint64, err error) {
	state := bucket.New(b.js, b.State())
	if err := state.Open(ctx); err != nil {
		return c, 0, err
	}
	return readCheckpoint(ctx, state)
}

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

// Reached waits until the normalizer has processed RAW up to seq, for at most ten
// seconds.
func (b *Bus) Reached(ctx context.Context, seq uint64) error {
	state := bucket.New(b.js, b.State())
	if err := state.Open(ctx); err != nil {
		return err
	}
	deadline := time.Now().Add(10 * time.Second)
	for {
		c, revision, err := readCheckpoint(ctx, state)
		if err == nil && revision != 0 && c.CutRaw >= seq {
			return nil
		}
		if time.Now().After(deadline) {
			return errors.New("the normalizer is not running, or far behind; try again later")
		}
		select {
		case <-ctx.Done():
			return ctx.Err()
		case <-time.After(100 * time.Millisecond):
		}
	}
}
