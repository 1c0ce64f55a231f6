package console

import (
	"errors"
	"strings"
	"testing"
	"testing/synctest"
	"time"
)

// torn is a writer that fails after some writes.
type torn struct {
	strings.Builder
	writes, fails int
}

func (w *torn) Write(p []byte) (int, error) {
	if w.writes++; w.writes == w.fails {
		return 0, errors.New("torn")
	}
	return w.Builder.Write(p)
}

func TestLinesAreWrittenTogetherAndSoon(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		var w torn
		lines, flush := Lines(&w)
		for range 100 {
			if _, err := lines.Write([]byte("line\n")); err != nil {
				t.Fatal(err)
			}
		}
		time.Sleep(2 * linesTime)
		synctest.Wait()
		if got := strings.Count(w.String(), "line\n"); got != 100 || w.writes != 1 {
			t.Errorf("%d lines in %d writes", got, w.writes)
		}
		if _, err := lines.Write([]byte("last\n")); err != nil || flush() != nil || !strings.HasSuffix(w.String(), "last\n") {
			t.Errorf("error %v, %q", err, w.String())
		}
		w.fails = w.writes + 1
		_, _ = lines.Write([]byte("lost\n"))
		time.Sleep(2 * linesTime)
		synctest.Wait()
		if _, err := lines.Write([]byte("more\n")); err == nil || flush() == nil {
			t.Error("the error of an earlier write is not told")
		}
	})
}

// The error of a write is returned once, although the last flush fails with it, too.
func TestTheErrorOfAnOutputIsToldOnce(t *testing.T) {
	t.Parallel()
	on := New(full{}, func(string) string { return "" })
	_, err := Follow(t.Context(), on, func(yield func(Record, error) bool) {
		for yield(Record{Run: "r", Line: 1, Event: []byte(`{"kind":"TextOutput","text":"x"}`)}, nil) {
		}
	}, on.Write)
	if err == nil || err.Error() != "full" {
		t.Errorf("got %v", err)
	}
}

// full is a writer that takes nothing.
type full struct{}

func (full) Write([]byte) (int, error) { return 0, errors.New("full") }
