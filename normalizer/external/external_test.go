package external_test

import (
	"strings"
	"testing"

	"github.com/linesman/linesman/normalizer"
	"github.com/linesman/linesman/normalizer/external"
	"github.com/linesman/linesman/runs"
	"github.com/linesman/linesman/test/fixture/backendtest"
)

func TestContract(t *testing.T) {
	backendtest.Run(t, backendtest.Suite{
		Backend: external.Backend{},
		Corpus:  "testdata/corpus",
		Golden:  "testdata/golden",
		Shown:   []string{"type", "status", "text", "error"},
	})
}

const question = `{"type":"external.question","prompt":"S3CR3T"}` + "\n"

// openLog returns the log of a run that is awaiting its reply.
func openLog() []runs.Entry {
	return []runs.Entry{
		{Kind: runs.Started, Time: 1_000, Body: runs.Encode(runs.Start{Source: runs.SourceExternal, Due: 9_000,
			Attributes: runs.Attributes{Labels: runs.LabelsOf(map[string]string{"request_id": "id"})}})},
		{Kind: runs.Out, Time: 2_000, Body: []byte(question)},
	}
}

func reply(text string) runs.Entry {
	return runs.Entry{Kind: runs.Out, Time: 3_000, Offset: int64(len(question)), Body: []byte(text)}
}

// The first of reply, cancel and exit ends the run.
func TestFirstEndWins(t *testing.T) {
	line, err := runs.Reply{Status: runs.ReplySuccess, Text: "yes"}.Line()
	if err != nil {
		t.Fatal(err)
	}
	ends := map[string]runs.Entry{
		"answer": reply(string(line)),
		"cancel": {Kind: runs.Cancelled, Time: 3_000, Body: runs.Encode(runs.Remark{})},
		"late":   {Kind: runs.Exited, Time: 3_000, Body: runs.Encode(runs.Exit{Reason: runs.ReasonHard})},
		"error":  reply(`{"type":"external.reply","status":"error","error":"no"}` + "\n"),
		"twice":  reply(string(line) + `{"type":"external.reply","status":"error","error":"no"}` + "\n"),
	}
	states := map[string]runs.State{
		"answer": runs.StateCompleted, "cancel": runs.StateCancelled, "late": runs.StateTimeout,
		"error": runs.StateFailed, "twice": runs.StateCompleted,
	}
	for first, one := range ends {
		for _, other := range ends {
			messages, fold := backendtest.Fold(external.Backend{}, append(openLog(), one, other))
			r := fold.Record
			if r.State != states[first] || !fold.Done() || r.EndedAt != 3_000 {
				t.Errorf("%s: %s, done: %v", first, r.Outcome(), fold.Done())
			}
			completions := 0
			for _, m := range messages {
				if m.Token == normalizer.CompletionToken {
					completions++
				}
			}
			if completions != 1 || messages[len(messages)-1].Token != normalizer.CompletionToken {
				t.Errorf("%s: %d completions in %d messages", first, completions, len(messages))
			}
			if first == "answer" && (r.FinalText == nil || *r.FinalText != "yes" || r.Lines != 2 ||
				r.Bytes != int64(len(question)+len(line))) {
				t.Errorf("%s: record %s", first, r.JSON())
			}
		}
	}
}

func TestQuestionIsNotPublished(t *testing.T) {
	messages, fold := backendtest.Fold(external.Backend{}, openLog())
	r := fold.Record
	if r.State != runs.StateInputRequired || r.State.Final() || !r.Unowned() || r.Due != 9_000 ||
		r.Labels.Value("request_id") != "id" {
		t.Errorf("record %s", r.JSON())
	}
	backendtest.Expect(t, runs.AgentExternal, messages,
		`{"kind":"Status","channel":"status","message":"input required"}`)
	if strings.Contains(string(r.JSON()), "S3CR3T") {
		t.Errorf("record %s", r.JSON())
	}
	if s := r.Summary(); s != "Waits for an answer from outside" {
		t.Errorf("summary %q", s)
	}
}

func FuzzLine(f *testing.F) { backendtest.FuzzLine(f, external.Backend{}, "testdata/corpus") }
