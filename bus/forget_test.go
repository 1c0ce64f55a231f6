package bus_test

import (
	"bytes"
	"encoding/json"
	"errors"
	"fmt"
	"testing"
	"time"

	"github.com/nats-io/nats.go"
	"go.uber.org/zap"

	"github.com/linesman/linesman/agent/codex"
	"github.com/linesman/linesman/bus"
	"github.com/linesman/linesman/bus/bucket"
	"github.com/linesman/linesman/bus/pipeline"
	"github.com/linesman/linesman/normalizer"
	"github.com/linesman/linesman/runs"
	"github.com/linesman/linesman/test/fixture/bustest"
)

// A forgotten run is nowhere, wherever the operation was interrupted and whatever the
// normalizer did meanwhile; the other runs are not affected.
func TestForgottenRunIsNowhereAndDisturbsNobody(t *testing.T) {
	t.Parallel()
	const secret = "sentinel-of-the-forgotten"
	for _, broken := range []string{
		"", "record", "raw", "folds", "rebuilds", "events", "task", "requests", "registrations", "notices",
	} {
		t.Run("broken off before "+broken, func(t *testing.T) {
			_, b := serve(t)
			ctx := t.Context()
			gone, stays, later := bustest.CorpusLog(
				t,
				"plan",
				333,
			), bustest.CorpusLog(
				t,
				"shell-fail",
				700,
			), bustest.CorpusLog(
				t,
				"shell-ok",
				500,
			)
			line := `{"type":"item.completed","item":{"id":"item_9","type":"agent_message","text":"` + secret + `"}}` + "\n"
			end := gone[len(gone)-1]
			at := gone[len(gone)-2]
			gone = append(
				gone[:len(gone)-1],
				runs.Entry{Kind: runs.Out, Time: 8_000, Offset: at.Offset + int64(len(at.Body)), Body: []byte(line)},
				end,
			)
			half := len(stays) / 2
			bustest.Interleave(
				t,
				b,
				map[string][]runs.Entry{"stays": stays[:half], "gone": gone},
				"stays",
				"gone",
			) // the last event is of the forgotten run
			normalize(t, b)
			remembered := func(key, form string) {
				if _, ok, err := b.RequestStore().Put(ctx, key, fmt.Appendf(nil, form, "gone"), time.Hour, 0); err != nil || !ok {
					t.Fatal(ok, err)
				}
			}
			remembered("one", `{"run":%q}`)
			remembered("two", `{"outcome":{"run":%q}}`)
			remembered("other", `{"run":"stays","hash":%q}`)
			if ok, err := b.PushStore().Put(ctx, "gone", []byte(`[]`), 0, time.Hour, 0); err != nil || !ok {
				t.Fatal(ok, err)
			}

			for _, id := range []string{"gone", "stays"} {
				saved := fmt.Appendf(nil, `{"record":{"id":%q}}`, id)
				if _, err := b.JetStream().Publish(ctx, bucket.Subject(b.Folds(), bus.FoldKey(id, 4)), saved); err != nil {
					t.Fatal(err)
				}
			}

			scratch, _, err := b.Scratch(ctx, b.RebuildNames(time.Now())) // of a rebuild that is killed
			if err != nil {
				t.Fatal(err)
			}
			record := fmt.Appendf(nil, `{"id":"gone","title":%q}`, secret)
			if _, err := b.JetStream().Publish(ctx, bucket.Subject(scratch.Runs(), "gone"), record); err != nil {
				t.Fatal(err)
			}

			if _, err := b.Forget(ctx, "stays"); !errors.Is(err, runs.ErrOpen) {
				t.Errorf("an open run: %v", err)
			}
			if _, err := b.Forget(ctx, "nobody"); !errors.Is(err, runs.ErrNoRun) {
				t.Errorf("no run: %v", err)
			}
			if broken != "" {
				_, err := b.ForgetEach(ctx, "gone", func(step string) error {
					if step == broken {
						return errDied
					}
					return nil
				})
				if !errors.Is(err, errDied) {
					t.Fatalf("it did not break off: %v", err)
				}
				normalize(t, b)
			}
			f, err := b.Forget(ctx, "gone")
			if err != nil {
				t.Fatal(err)
			}
			if broken == "" && (f.Entries != uint64(len(gone)) || f.Events == 0 || !f.Record || f.Requests != 2) {
				t.Errorf("forgotten %+v", f)
			}
			if again, err := b.Forget(ctx, "gone"); err != nil || again != (runs.Forgotten{}) {
				t.Errorf("again %+v, %v", again, err)
			}

			l, err := b.OpenLog(ctx, "codex", "stays", runs.Mark{})
			if err != nil {
				t.Fatal(err)
			}
			for _, e := range stays[half:] {
				if err := l.Append(ctx, e); err != nil {
					t.Fatal(err)
				}
			}
			bustest.Interleave(t, b, map[string][]runs.Entry{"later": later}, "later")
			normalize(t, b)

			for id, log := range map[string][]runs.Entry{"stays": stays, "later": later} {
				fold := normalizer.NewFold(codex.Backend{}, id, 0)
				var want, have []string
				for i, e := range log {
					fold.Apply(uint64(i+1), e, func(m normalizer.Message) { want = append(want, m.Token+" "+string(m.Body)) })
				}
				if err := b.Read(ctx, runs.Selection{Run: id}, func(s bus.Stored) error {
					have = append(have, s.Token+" "+string(s.Body))
					return nil
				}); err != nil {
					t.Fatal(err)
				}
				bustest.Diff(t, id, have, want)
			}
			bustest.EachStored(t, b, func(stream, subject string, header nats.Header, body []byte) {
				usage := stream == bucket.Stream(b.Threads()) // runs that resume its thread count from there
				head, err := json.Marshal(header)
				if err != nil {
					t.Fatal(err)
				}
				all := append(head, body...)
				if bytes.Contains(all, []byte(secret)) ||
					bytes.Contains(all, []byte(`"gone"`)) && !usage && subject != bucket.Subject(b.Requests(), "other") {
					t.Errorf("%s still tells of it: %.200s", subject, body)
				}
			})
			r, err := pipeline.Rebuild(ctx, b, []normalizer.Backend{codex.Backend{}}, 0, zap.NewNop())
			if err != nil || len(r.Differences) > 0 || r.Runs != 2 {
				t.Errorf("rebuilt %+v, %v", r, err)
			}
		})
	}
}

// The bucket of saved folds is a cache: without it, a run can be forgotten.
func TestForgetNeedsNoSavedFolds(t *testing.T) {
	t.Parallel()
	_, b := serve(t)
	bustest.Interleave(t, b, map[string][]runs.Entry{"gone": bustest.CorpusLog(t, "plan", 333)}, "gone")
	normalize(t, b)
	if err := b.JetStream().DeleteStream(t.Context(), bucket.Stream(b.Folds())); err != nil {
		t.Fatal(err)
	}
	if f, err := b.Forget(t.Context(), "gone"); err != nil || !f.Record {
		t.Errorf("got %+v, %v", f, err)
	}
}
