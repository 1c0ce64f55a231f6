package pipeline

import (
	"errors"
	"testing"

	"github.com/nats-io/nats.go"

	"github.com/linesman/linesman/bus"
	"github.com/linesman/linesman/normalizer"
	"github.com/linesman/linesman/runs"
	"github.com/linesman/linesman/test/fixture/bustest"
)

// Another program's message arrived while ours were in flight: it has the sequence of
// one that was refused, and the later ones were accepted. The last event is ours, and
// one is missing.
func TestForeignEventAmongOursEndsTheNormalizer(t *testing.T) {
	t.Parallel()
	_, b := serve(t)
	bustest.Interleave(t, b, map[string][]runs.Entry{"a": bustest.CorpusLog(t, "shell-fail", 700)}, "a")
	stopAt(t, b, 5)
	ours := nats.NewMsg(b.EventSubject("codex", "a", "status"))
	ours.Header.Set(bus.HeaderPos, string(bus.AppendPos(nil, normalizer.Pos{Raw: 2, Line: 9, Part: 1, Time: 1})))
	ours.Data = []byte(`{}`)
	for _, m := range []*nats.Msg{{Subject: b.EventSubject("codex", "x", "status"), Data: []byte(`{"forged":true}`)},
		ours} {
		if _, err := b.PublicJetStream().PublishMsg(t.Context(), m); err != nil {
			t.Fatal(err)
		}
	}
	n := newNormalizer(b)
	n.Until = bustest.LastSeq(t, b.JetStream(), b.Raw())
	if err := n.Run(t.Context()); !errors.Is(err, errForeign) {
		t.Errorf("the normalizer returns %v", err)
	}
}
