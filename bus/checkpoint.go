package bus

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"time"

	"github.com/linesman/linesman/bus/bucket"
)

// Checkpoint says where a normalizer can go on. Every run record is at least
// as new as Raw; what lies beyond it is read again.
type Checkpoint struct {
	RawID    string `json:"raw_stream"`   // which RAW: a stream made anew has another one
	EventsID string `json:"event_stream"` // which EVENTS
	RunsID   string `json:"run_stream"`   // which RUNS: what its records covered is gone with them
	Raw      uint64 `json:"raw_seq"`      // all before and at it need not be read again
	Anew     uint64 `json:"anew,omitempty"`
	Runs     uint64 `json:"run_seq,omitempty"` // RUNS reached at least so far: one that is shorter has lost its end

	// The last cut that was begun: when EVENTS ended with CutEvents, it held
	// all that RAW up to CutRaw gives. Records of that cut may be stored.
	CutRaw    uint64 `json:"cut_raw_seq"`
	CutEvents uint64 `json:"cut_event_seq"`
}

// CheckpointKey is the key of the normalizer's checkpoint in the state bucket.
const CheckpointKey = "checkpoint"

// errUnknownForm reports a checkpoint of another linesman, or of somebody else.
var errUnknownForm = errors.New("the checkpoint is not of the known form")

// Checkpoint reads the normalizer's checkpoint and its revision: 0 where nothing
// was ever recorded.
func (b *Bus) Checkpoint(ctx context.Context) (c Checkpoint, revision uint64, err error) {
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

// Reached waits until the normalizer has recorded what RAW holds up to seq, ten
// seconds at most.
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
			return errors.New("the normalizer is not at work, or far behind: try again when it is")
		}
		select {
		case <-ctx.Done():
			return ctx.Err()
		case <-time.After(100 * time.Millisecond):
		}
	}
}
