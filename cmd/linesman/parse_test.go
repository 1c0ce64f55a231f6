package main

import (
	"errors"
	"io"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/alecthomas/kong"

	"github.com/linesman/linesman/api"
)

func TestOnlyCloseWordsAreSuggested(t *testing.T) {
	words := []string{"status", "run", "up", "ls", "logs", "events", "watch-sessions", "tail", "mcp"}
	for typed, want := range map[string]string{
		"statsu": "status", "status": "status", "stat": "status", "rnu": "run", "log": "logs", "evnts": "events",
		"watch": "watch-sessions",
		"foo":   "", "xx": "", "us": "", "pu": "", "l": "", "": "", "stones": "", "é": "", "maul": "",
	} {
		if got := strings.Join(nearest(typed, words), " "); got != want {
			t.Errorf("%q: got %q, want %q", typed, got, want)
		}
	}
	for _, tt := range [][2]string{
		{`unexpected argument statsu, did you mean "status"?`, `unexpected argument statsu, did you mean "status"?`},
		{`unexpected argument us, did you mean one of "up", "ls"?`, "unexpected argument us"},
		{`unknown flag --foo, did you mean one of "--for", "--fob", "--x"?`,
			`unknown flag --foo, did you mean one of "--for", "--fob"?`},
		{"expected one of a, b", "expected one of a, b"},
	} {
		if got := closer(errors.New(tt[0])).Error(); got != tt[1] {
			t.Errorf("%s: got %q, want %q", tt[0], got, tt[1])
		}
	}
}

func TestDistanceCountsExchangedLettersOnce(t *testing.T) {
	for _, tt := range []struct {
		a, b string
		want int
	}{{"", "", 0}, {"", "abc", 3}, {"abc", "", 3}, {"abc", "acb", 1}, {"abc", "abd", 1}, {"abc", "xabc", 1},
		{"ab", "cd", 2}} {
		if got := distance(tt.a, tt.b); got != tt.want {
			t.Errorf("%q, %q: got %d, want %d", tt.a, tt.b, got, tt.want)
		}
	}
}

// With the files of a directory in place of one argument the error comes at once: a parser takes milliseconds.
func TestManyStrayWordsTakeFewParsers(t *testing.T) {
	many := slices.Repeat([]string{"a"}, 5000)
	for _, tt := range []struct {
		before, after []string
		want          string // all mistakes
		name          string // of the last command
	}{
		{[]string{"status", "T-1"}, nil, "unexpected argument a", "status"},
		{[]string{"status", "T-1", "--"}, slices.Repeat([]string{"-x"}, 5000), "unexpected argument a", "status"},
		{[]string{"status", "T-1"}, []string{"--log-level", "warn", "b", "--foo"},
			"unexpected argument a\nunknown flag --foo", "status"},
		{[]string{"token"}, []string{"list"}, "unexpected argument a", "list"},
		{nil, nil, "unexpected argument a", ""},
	} {
		parsers, helped := 0, false
		kctx, _, err := parseAll(slices.Concat(tt.before, many, tt.after), func() (*kong.Kong, error) {
			parsers++
			return newParser(&grammar{}, io.Discard, func(int) { helped = true })
		}, &helped)
		name := ""
		if kctx.Selected() != nil {
			name = kctx.Selected().Name
		}
		if err == nil || err.Error() != tt.want || parsers > 5 || name != tt.name {
			t.Errorf("%q: got the error %v and the command %q of %d parsers, want %q and %q of a few", tt.before, err, name,
				parsers, tt.want, tt.name)
		}
	}
}

func TestMomentsAsPeopleWriteThem(t *testing.T) {
	now := time.Date(2026, 5, 31, 12, 0, 0, 0, time.FixedZone("here", 2*3600))
	for text, want := range map[string]string{
		"2h": "2026-05-31T08:00:00.000Z", "0s": "2026-05-31T10:00:00.000Z", "2026-05-30": "2026-05-29T22:00:00.000Z",
		"2026-05-30T01:02:03Z": "2026-05-30T01:02:03.000Z", "2026-05-30T01:02:03+01:00": "2026-05-30T00:02:03.000Z",
		"-1s": "", "yesterday": "", "": "", "2026-13-01": "",
	} {
		got, err := momentOf(text, now)
		if got.String() != want || (err == nil) != (want != "") {
			t.Errorf("%q: got %q, %v, want %q", text, got, err, want)
		}
	}
}

func TestARefusalIsOneObject(t *testing.T) {
	lost := errors.New("lost")
	for _, tt := range []struct {
		err  error
		want string
	}{
		{nil, ""},
		{errors.New("x"), ""},
		{&api.Error{Code: api.Unavailable, Message: "no responder answers", Err: lost}, ""},
		{errors.Join(lost, &api.Error{Code: api.NotFound, Message: "none", Run: "T-1"}),
			`{"code":"NOT_FOUND","message":"none","run":"T-1"}` + "\n"},
	} {
		var b strings.Builder
		if err := printRefusal(&b, tt.err); err != nil || b.String() != tt.want {
			t.Errorf("%v: got %q, %v, want %q", tt.err, b.String(), err, tt.want)
		}
	}
}

func TestAmbiguousReferencesListTheirCandidatesSafely(t *testing.T) {
	err := ambiguous("0m\x1b", &api.Error{Code: api.Conflict, Message: "fits 7 runs", Unlisted: 5, Issues: []api.Issue{
		{Field: "T-1", Problem: "working \x1b[2J"}, {Field: "T-2", Problem: "failed"},
	}})
	want := []string{`RUN: 0m\x1b fits 7 runs: give more of its id`, `    T-1  working \x1b[2J`, "    T-2  failed",
		"    and 5 more"}
	if got := strings.Split(err.Error(), "\n"); !slices.Equal(got, want) {
		t.Errorf("got %q, want %q", got, want)
	}
}
