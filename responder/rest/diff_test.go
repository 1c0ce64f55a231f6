package rest_test

import (
	"fmt"
	"strings"
	"testing"

	"github.com/nats-io/nats.go/jetstream"

	"github.com/linesman/linesman/api"
	"github.com/linesman/linesman/runs"
	"github.com/linesman/linesman/test/fixture/servicetest"
)

// largeDiff takes several notes.
func largeDiff() runs.Diff {
	d := runs.Diff{
		Changes: runs.Changes{Files: 201, Added: 5, Removed: 4, Truncated: true},
		Patch:   "diff --git a/x b/x\n" + strings.Repeat("+<a> & \"b\"\x01\n", 8_000),
	}
	for i := range 200 {
		d.Listed = append(d.Listed, runs.DiffFile{Path: fmt.Sprint("dir/", i), Kind: "modified", Added: 1})
	}
	return d
}

func TestDiffOfARun(t *testing.T) {
	t.Parallel()
	s := newStage(t, nil)
	whole := largeDiff()
	note := func(l *servicetest.Log, bodies [][]byte) *servicetest.Log {
		for _, body := range bodies {
			l.Append(runs.Entry{Kind: runs.Note, Time: 5, Body: body})
		}
		return l
	}
	begin := func(id, source string) *servicetest.Log { return s.Begin("codex", id, runs.Start{Source: source}) }
	notes := whole.Notes("one")
	if len(notes) < 3 {
		t.Fatalf("only %d notes", len(notes))
	}
	// A worker that was killed left a part of a set; the last complete set counts.
	l := note(begin("done", "run"), notes[:2])
	note(l, runs.Diff{Changes: runs.Changes{Files: 9}}.Notes("two"))
	note(l, whole.Notes("three"))
	note(l, notes[1:]).Exit(0)
	note(begin("none", "queue"), runs.Diff{}.Notes("x")).Exit(0)
	note(begin("off", "run"), runs.Diff{Changes: runs.Changes{Reason: runs.DiffOff}}.Notes("x")).Exit(0)
	note(begin("slow", "run"), runs.Diff{Changes: runs.Changes{Reason: runs.TooSlow}}.Notes("x")).Exit(0)
	note(begin("foreign", "run"), [][]byte{[]byte(`{"reason":"diff","diff":{"part":1,"parts":2,"reason":"\u001b","files":-1}}`)}).
		Exit(0)
	note(begin("part", "run"), notes[:1]).Exit(0)
	begin("plain", "run").Exit(0)
	begin("piped", "pipe").Exit(0)
	begin("spawn", "run").End(runs.Exit{Reason: runs.ReasonSpawn, Spawn: runs.SpawnNotFound})
	begin("lost", "run").End(runs.Exit{Reason: runs.ReasonLost})
	note(begin("expired", "run"), notes).Exit(0)
	note(begin("working", "run"), notes)
	for _, id := range []string{
		"done", "none", "off", "slow", "foreign", "part", "plain", "piped", "spawn", "lost", "expired",
	} {
		s.Await(id, servicetest.Ended)
	}
	s.Await("working", servicetest.Working)
	raw, err := s.Operator.JetStream().Stream(t.Context(), s.Bus.Raw())
	if err == nil {
		err = raw.Purge(t.Context(), jetstream.WithPurgeSubject(s.Bus.RawSubject("codex", "expired")))
	}
	if err != nil {
		t.Fatal(err)
	}

	var got api.Diff
	s.want(200, "GET", "/v1/runs/done/diff", "").read(t, &got)
	if got.Patch != whole.Patch || len(got.Files) != 200 || got.Files[7] != whole.Listed[7] || got.Unlisted != 1 ||
		!got.Truncated || *got.Changes != (api.Changes{Files: 201, Added: 5, Removed: 4}) || got.Run != "done" {
		t.Errorf("got %+v", got)
	}
	patch := s.want(200, "GET", "/v1/runs/done/diff", "", "Accept", "text/x-diff")
	if string(patch.body) != whole.Patch || patch.header.Get("X-Linesman-Truncated") != "true" {
		t.Errorf("got %.300s", patch.body)
	}
	if b := s.want(200, "GET", "/v1/runs/none/diff", "", "Accept", "text/x-diff").body; len(b) != 0 {
		t.Errorf("got %s", b)
	}
	for id, want := range map[string]api.DiffReason{
		"none": "", "off": "off", "slow": "timeout", "foreign": "failed", "part": api.DiffLost,
		"plain": api.DiffNoWorkTree, "piped": api.DiffNoProcess, "spawn": api.DiffNotStarted, "lost": api.DiffLost,
		"expired": api.DiffExpired,
	} {
		var got api.Diff
		s.want(200, "GET", "/v1/runs/"+id+"/diff", "").read(t, &got)
		if got.Reason != want || got.Why != api.Whys[want] || want != "" && (got.Why == "" || got.Patch != "") {
			t.Errorf("%s: got %+v, want the reason %q", id, got, want)
		}
		if want == "" {
			continue
		}
		r := s.want(409, "GET", "/v1/runs/"+id+"/diff", "", "Accept", "text/x-diff")
		if !strings.Contains(string(r.body), api.Whys[want]) {
			t.Errorf("%s: no reason in %s", id, r.body)
		}
	}
	s.want(409, "GET", "/v1/runs/working/diff", "")
	s.want(404, "GET", "/v1/runs/missing/diff", "")

	// The run has the numbers, and no path.
	var run api.Run
	answer := s.want(200, "GET", "/v1/runs/done", "")
	answer.read(t, &run)
	if run.Changes == nil || *run.Changes != (api.Changes{Files: 201, Added: 5, Removed: 4}) ||
		strings.Contains(string(answer.body), "dir/") {
		t.Errorf("got %s", answer.body)
	}
}
