package worker

import (
	"os"
	"path/filepath"
	"strings"
	"testing"
)

// What a run of linesman adds to the session of a person, or to one of its own, is in its raw log: the log of the
// session is published up to there, and from where somebody else goes on.
func TestSessionThatARunContinuesIsNotPublishedAgain(t *testing.T) {
	t.Parallel()
	l := newFixture(t)
	dir := place(t)
	persons, own := filepath.Join(dir, "persons.jsonl"), filepath.Join(dir, "own.jsonl")
	write(t, persons, "shown p\none\n")
	spec := sessionsSpec(dir)
	begun, _ := l.sessions(spec)
	waitFor(t, "the session", func() bool { return l.text(begun(persons)) == "shown p\none\n" })
	first := begun(persons)[0]

	resumes := shell("resumes", "")
	resumes.Thread = "P"
	begins := shell("begins", "")
	begins.Live = true
	taken := []*Dir{l.create(resumes), l.create(begins)}
	write(t, taken[1].file("thread"), "o")
	waitFor(t, "the end of its run", func() bool { return l.ended(first) })
	write(t, persons, "by resumes\n")
	write(t, own, "shown o\nby begins\n")
	write(t, filepath.Join(dir, "last.jsonl"), "shown last\n")
	waitFor(t, "another session", func() bool { return len(begun(filepath.Join(dir, "last.jsonl"))) == 1 })
	if err := os.Remove(filepath.Join(dir, "last.jsonl")); err != nil {
		t.Fatal(err)
	}
	for _, d := range taken {
		if err := d.Remove(); err != nil {
			t.Fatal(err)
		}
	}
	for _, size := range []string{`"size":23,`, `"size":18,`} {
		waitFor(t, "the ledger", func() bool { return strings.Contains(contents(t, l.w.cfg.Ledger), size) })
	}
	write(t, persons, "two\n")
	write(t, own, "more\n")
	waitFor(t, "the next runs", func() bool {
		return l.text(begun(persons)) == "shown p\none\ntwo\n" && l.text(begun(own)) == "more\n"
	})
}
