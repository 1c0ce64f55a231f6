package worker

import (
	"context"
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/linesman/linesman/agent/known"
	"github.com/linesman/linesman/runs"
)

// What a run of linesman adds to the session of a person, or to one of its own, is in its raw log: the log of the
// session is published up to there, and from where somebody else goes on.
func TestSessionThatARunContinuesIsNotPublishedAgain(t *testing.T) {
	t.Parallel()
	for name, how := range map[string]func(*Spec){
		"its task names":         func(s *Spec) { s.Thread = strings.ToUpper(thisThread) },
		"its command line names": func(s *Spec) { s.Argv = []string{"claude", "-p", "--resume=" + thisThread, "x"} },
	} {
		t.Run("whose thread "+name, func(t *testing.T) {
			t.Parallel()
			continued(t, how)
		})
	}
}

func continued(t *testing.T, how func(*Spec)) {
	l := newFixture(t)
	l.w.cfg.Agents = known.Agents
	dir := place(t)
	const first = "shown " + thisThread + "\none\n"
	persons, own := filepath.Join(dir, "persons.jsonl"), filepath.Join(dir, "own.jsonl")
	write(t, persons, first)
	spec := sessionsSpec(dir)
	spec.Places[0].Agent = "claude_code"
	begun, _ := l.sessions(spec)
	waitFor(t, "the session", func() bool { return l.text(begun(persons)) == first })
	run := begun(persons)[0]

	resumes, begins := shell("resumes", ""), shell("begins", "")
	resumes.Agent, begins.Agent, begins.Live = "claude_code", "claude_code", true
	how(&resumes)
	taken := []*Dir{l.create(resumes), l.create(begins)}
	write(t, taken[1].file("thread"), "o")
	waitFor(t, "the end of its run", func() bool { return l.ended(run) })
	write(t, persons, "by resumes\n")
	write(t, own, "shown o\nby begins\n")
	for _, name := range []string{"another.jsonl", "later.jsonl"} { // with the second, all before the first are read
		path := filepath.Join(dir, name)
		write(t, path, "shown "+name+"\n")
		waitFor(t, "another session", func() bool { return len(begun(path)) == 1 })
		if err := os.Remove(path); err != nil {
			t.Fatal(err)
		}
	}
	for _, d := range taken {
		if err := d.Remove(); err != nil {
			t.Fatal(err)
		}
	}
	for _, size := range []int{len(first + "by resumes\n"), len("shown o\nby begins\n")} {
		waitFor(t, "the ledger", func() bool {
			return strings.Contains(contents(t, l.w.cfg.Ledger), fmt.Sprintf(`"size":%d,`, size))
		})
	}
	write(t, persons, "two\n")
	write(t, own, "more\n")
	waitFor(t, "the next runs", func() bool {
		return l.text(begun(persons)) == first+"two\n" && l.text(begun(own)) == "more\n"
	})
}

// Of what is added to a log after a run has begun to continue its session nothing is published, and what was there
// before is: also between two scans, which can be seconds apart.
func TestLinesOfARunThatContinuesASessionAreItsOwnFromItsBeginning(t *testing.T) {
	t.Parallel()
	for name, before := range map[string]string{"read": "one\n", "not read to its end": numbers(0, 20_000)} {
		t.Run("the log was "+name, func(t *testing.T) {
			t.Parallel()
			l := newFixture(t)
			l.w.tailPause = time.Hour // until the next scan
			path := filepath.Join(place(t), "s.jsonl")
			write(t, path, "shown p\n"+before)
			var taken *Dir
			take := func() {
				resumes := shell("resumes", "")
				resumes.Thread = "p"
				taken = l.create(resumes)
				l.later("resumes")
				write(t, path, "by resumes\n")
			}
			if len(before) > runs.MaxChunk {
				take := sync.OnceFunc(take)
				l.logs.hook = func(_ *fileLog, e runs.Entry) runs.Entry {
					if e.Kind == runs.Out {
						take()
					}
					return e
				}
			}
			begun, stop := l.sessions(sessionsSpec(filepath.Dir(path)))
			waitFor(t, "the session", func() bool { return len(l.text(begun(path))) >= len("shown p\n"+before) })
			if len(before) <= runs.MaxChunk {
				take()
			}
			run := begun(path)[0]
			waitFor(t, "its end", func() bool { return l.ended(run) && exists(l.w.cfg.Ledger) })
			stop()
			if got := l.output(run); got != "shown p\n"+before || l.exit(run).Torn {
				t.Errorf("%d bytes of output, want %d; it ends as %q", len(got), len(before), got[max(0, len(got)-20):])
			}
			if err := taken.Remove(); err != nil {
				t.Error(err)
			}
		})
	}
}

// What the person has written before a run takes the session is published, however late it is read: nobody was there,
// or the log of the run was away.
func TestLinesBeforeARunTakesTheirSessionAreNotLost(t *testing.T) {
	t.Parallel()
	for name, test := range map[string]struct{ before, after, want string }{
		"and nothing after it":        {"two\n", "", "two\n"},
		"and lines that tell no time": {"two\n", "by resumes\n", "two\nby resumes\n"},
		"and lines that tell times": {
			`{"timestamp":"2020-01-01T00:00:00.000Z"}` + "\ntwo\n", `{"timestamp":"2999-01-01T00:00:00.000Z"}` + "\nx\n",
			`{"timestamp":"2020-01-01T00:00:00.000Z"}` + "\ntwo\n",
		},
	} {
		const first = "shown p\none\n"
		prepare := func(t *testing.T) (l *fixture, path string, take func()) {
			l = newFixture(t)
			path = filepath.Join(place(t), "s.jsonl")
			return l, path, func() {
				write(t, path, test.before)
				resumes := shell("resumes", "")
				resumes.Thread = "p"
				l.create(resumes)
				if test.after != "" {
					l.later(resumes.Run)
					write(t, path, test.after)
				}
			}
		}
		ends := func(t *testing.T, l *fixture, run, want string) {
			waitFor(t, "its end", func() bool { return l.ended(run) })
			if got := l.output(run); got != first+want {
				t.Errorf("output %q, want %q after the first lines", got, want)
			}
		}
		t.Run("nobody was there "+name, func(t *testing.T) {
			t.Parallel()
			l, path, take := prepare(t)
			write(t, path, first)
			begun, stop := l.sessions(sessionsSpec(filepath.Dir(path)))
			waitFor(t, "the session", func() bool { return l.text(begun(path)) == first })
			stop()
			take()
			l.sessions(sessionsSpec(filepath.Dir(path)))
			ends(t, l, begun(path)[0], test.want)
		})
		t.Run("it was never read "+name, func(t *testing.T) {
			t.Parallel()
			l, path, take := prepare(t)
			write(t, path, first)
			take()
			begun, _ := l.sessions(sessionsSpec(filepath.Dir(path)))
			waitFor(t, "the session", func() bool { return len(begun(path)) == 1 })
			ends(t, l, begun(path)[0], test.want)
		})
		t.Run("the log was away "+name, func(t *testing.T) {
			t.Parallel()
			l, path, take := prepare(t)
			write(t, path, first)
			once := sync.OnceFunc(take)
			l.logs.hook = func(_ *fileLog, e runs.Entry) runs.Entry {
				if e.Kind == runs.Out {
					once()
				}
				return e
			}
			begun, _ := l.sessions(sessionsSpec(filepath.Dir(path)))
			waitFor(t, "the session", func() bool { return len(begun(path)) == 1 })
			want := test.want
			if strings.HasSuffix(want, "by resumes\n") { // it was away for so short a time that they are of the run
				want = ""
			}
			ends(t, l, begun(path)[0], want)
		})
	}
}

// The run that has a session is followed by another one at once. The ledger has the lines of the first before the
// second ends, so a follower that begins in between does not publish them again.
func TestLinesOfARunBeforeTheOneThatHasTheSessionAreNotPublished(t *testing.T) {
	t.Parallel()
	l := newFixture(t)
	path := filepath.Join(place(t), "s.jsonl")
	stamped := func(text string) string {
		return fmt.Sprintf(`{"timestamp":%q}`+"\n%s\n", time.Now().UTC().Format("2006-01-02T15:04:05.000Z"), text)
	}
	first := "shown p\n" + stamped("one")
	write(t, path, first)
	begun, _ := l.sessions(sessionsSpec(filepath.Dir(path)))
	waitFor(t, "the session", func() bool { return l.text(begun(path)) == first })
	take := func(run string) *Dir {
		resumes := shell(run, "")
		resumes.Thread = "p"
		d := l.create(resumes)
		l.later(run)
		return d
	}
	a := take("a")
	waitFor(t, "its end", func() bool { return l.ended(begun(path)[0]) })
	ofA := stamped("by a")
	write(t, path, ofA)
	l.later("a")
	b := take("b") // before it ends, as of two such runs the older one has the session
	if err := a.Remove(); err != nil {
		t.Fatal(err)
	}
	ofB := stamped("by b")
	write(t, path, ofB)
	waitFor(t, "the ledger", func() bool {
		return strings.Contains(contents(t, l.w.cfg.Ledger), fmt.Sprintf(`"size":%d,`, len(first+ofA)))
	})
	if err := b.Remove(); err != nil {
		t.Fatal(err)
	}
	waitFor(t, "the ledger", func() bool {
		return strings.Contains(contents(t, l.w.cfg.Ledger), fmt.Sprintf(`"size":%d,`, len(first+ofA+ofB)))
	})
	write(t, path, "two\n")
	waitFor(t, "the next run", func() bool { return l.text(begun(path)) == first+"two\n" })
}

// later waits until what is written has a later time than a run.
func (l *fixture) later(run string) {
	spec, err := readSpec(filepath.Join(l.root, run))
	if err != nil {
		l.t.Fatal(err)
	}
	clock := filepath.Join(l.t.TempDir(), "clock")
	waitFor(l.t, "a later time", func() bool {
		write(l.t, clock, "x")
		info, err := os.Stat(clock)
		return err == nil && info.ModTime().UnixMilli() > spec.Created
	})
}

// The normalizer can be late: the output that is there tells whose session it is, also that which another program
// writes.
func TestSessionThatIsPrintedToARunIsNotPublishedAgain(t *testing.T) {
	t.Parallel()
	l := newFixture(t)
	dir, other := place(t), t.TempDir()
	l.create(shell("ran", ""))
	write(t, filepath.Join(l.root, "ran", outFile), "session ran\n")
	l.create(Spec{Run: "piped", Attributes: runs.Attributes{Agent: "codex"}, Source: runs.SourcePipe})
	write(t, filepath.Join(l.root, "piped", outFile), "session piped\n")
	followed := filepath.Join(other, "out")
	write(t, followed, "session followed\n")
	l.tail(followed)
	l.awaitSummary("session followed\n")

	spec := sessionsSpec(dir)
	asked := make(chan string, 8)
	spec.Own = func(_ context.Context, session string) (bool, error) {
		asked <- session
		return false, nil
	}
	for _, session := range []string{"ran", "piped", "followed", "unknown"} {
		write(t, filepath.Join(dir, session+".jsonl"), "headless "+session+"\n")
	}
	begun, stop := l.sessions(spec)
	waitFor(t, "the one of no run", func() bool { return len(begun(filepath.Join(dir, "unknown.jsonl"))) == 1 })
	stop()
	close(asked)
	for session := range asked {
		if session != "unknown" {
			t.Errorf("it is not seen that %s has a run", session)
		}
	}
}
