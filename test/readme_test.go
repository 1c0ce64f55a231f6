package test

import (
	"bytes"
	"encoding/json"
	"path/filepath"
	"regexp"
	"slices"
	"strings"
	"testing"

	"github.com/linesman/linesman/agent/codex"
	"github.com/linesman/linesman/normalizer"
	"github.com/linesman/linesman/runs"
)

// fence is the body of the first fenced block of a kind, and what follows it.
func fence(page, kind string) (block, rest string, found bool) {
	_, rest, found = strings.Cut(page, "```"+kind+"\n")
	block, rest, closed := strings.Cut(rest, "```\n")
	return block, rest, found && closed
}

// masks hide what differs from one run of the demo to the next.
var masks = []struct {
	what *regexp.Regexp
	with string
}{
	{regexp.MustCompile(`\d{4}-\d\d-\d\dT\d\d:\d\d:\d\d\.\d{3}Z`), "TIME"},
	{regexp.MustCompile(`T-local-[0-9a-z]{15}`), "RUN"},
	{regexp.MustCompile(`took=\d\.\d{3}s`), "took=N"},
	{regexp.MustCompile(`(?m)^ready nats=nats://127\.0\.0\.1:\d+ http=http://127\.0\.0\.1:\d+ data=/\S+$`), "READY"},
}

// The first commands of the page show what linesman does, and test it; the
// check of a commit tests first what a reader tests.
func TestFirstCommandsShowAndTestLinesman(t *testing.T) {
	var commands []string
	for line := range strings.Lines(text(t, "README.md")) {
		command, ok := strings.CutPrefix(line, "    ")
		if ok {
			command, _, _ = strings.Cut(command, "#")
			commands = append(commands, strings.TrimSpace(command))
		} else if len(commands) > 0 {
			break
		}
	}
	want := []string{"go run ./cmd/linesman up --demo", "go run ./cmd/linesman page", "make test"}
	if !slices.Equal(commands, want) {
		t.Errorf("got %q, want %q", commands, want)
	}
	check := regexp.MustCompile(`(?m)^[^#\n]*\bmake [a-z-].*$`).FindString(text(t, ".ci/run"))
	if !strings.HasSuffix(check, " make test") {
		t.Errorf("the check of a commit begins with %q", check)
	}
}

func TestTranscriptIsWhatTheDemoPrints(t *testing.T) {
	want, _, ok := fence(text(t, "README.md"), "transcript")
	if !ok {
		t.Fatal("the README has no transcript")
	}
	i := up(t, filepath.Join(install(t, "./cmd/linesman"), "linesman"), t.TempDir(), "--demo")
	i.Await(i.Stdout, "Ctrl-C ends this server.\n")
	have := i.Stdout.String()
	for _, m := range masks {
		have, want = m.what.ReplaceAllString(have, m.with), m.what.ReplaceAllString(want, m.with)
	}
	if have != want {
		t.Errorf("the demo prints\n%s\nthe README has\n%s", have, want)
	}
}

func TestMessagesOfTheREADMEAreReal(t *testing.T) {
	fold := normalizer.NewFold(codex.Backend{}, "x", 0)
	var real []string
	take := func(m normalizer.Message) { real = append(real, string(m.Body)) }
	code := 0
	fold.Apply(1, runs.Entry{Kind: runs.Out, Body: []byte(text(t, "test/corpus/codex/shell-ok.jsonl"))}, take)
	fold.Apply(2, runs.Entry{Kind: runs.Exited, Body: runs.Encode(runs.Exit{Reason: runs.ReasonExited, Code: &code})},
		take)
	n := 0
	for block, rest, ok := fence(text(t, "README.md"), "json"); ok; block, rest, ok = fence(rest, "json") {
		n++
		var compact bytes.Buffer
		if err := json.Compact(&compact, []byte(block)); err != nil {
			t.Errorf("%v in\n%s", err, block)
		} else if !slices.Contains(real, compact.String()) {
			t.Errorf("no message of the recording is\n%s", block)
		}
	}
	if n != 2 {
		t.Errorf("%d messages, want an event and a completion", n)
	}
}
