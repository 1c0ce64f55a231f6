package test

import (
	"bytes"
	"context"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strconv"
	"strings"
	"testing"
	"time"

	"github.com/nats-io/nats.go"
	"github.com/nats-io/nats.go/jetstream"

	"github.com/linesman/linesman/agent/codex"
	"github.com/linesman/linesman/normalizer"
	"github.com/linesman/linesman/runs"
	"github.com/linesman/linesman/test/fixture"
)

// bodies are what a recording without a process becomes.
func bodies(recording []byte) []string {
	var all []string
	fold := normalizer.NewFold(codex.Backend{}, "x", 0)
	take := func(m normalizer.Message) { all = append(all, string(m.Body)) }
	fold.Apply(1, runs.Entry{Kind: runs.Out, Body: recording}, take)
	fold.Apply(2, runs.Entry{Kind: runs.Exited, Body: runs.Encode(runs.Exit{Reason: runs.ReasonEOF})}, take)
	return all
}

// readEvents runs the example until the run's completion.
func readEvents(t *testing.T, program string, i *instance, run string) []string {
	t.Helper()
	ctx, cancel := context.WithTimeout(t.Context(), time.Minute)
	defer cancel()
	var stderr bytes.Buffer
	cmd := exec.CommandContext(ctx, program, run)
	cmd.Env, cmd.Stderr = i.as("subscriber"), &stderr
	out, err := cmd.Output()
	if err != nil {
		t.Fatalf("read-events %s: %v\n%s%s", run, err, out, stderr.Bytes())
	}
	return lines(string(out))
}

func TestExamples(t *testing.T) {
	bin := install(t, "./cmd/linesman", "./examples/read-events", "./examples/publish-raw")
	i := up(t, filepath.Join(bin, "linesman"), t.TempDir())
	recording := []byte(text(t, "test/corpus/codex/long-message.jsonl")) // many chunks
	publish := func(run string) ([]byte, error) {
		cmd := exec.CommandContext(t.Context(), filepath.Join(bin, "publish-raw"), run)
		cmd.Env, cmd.Stdin = i.as("worker"), bytes.NewReader(recording)
		return cmd.CombinedOutput()
	}
	if out, err := publish("mine"); err != nil {
		t.Fatalf("publish-raw: %v\n%s", err, out)
	}
	want := bodies(recording)
	if got := readEvents(t, filepath.Join(bin, "read-events"), i, "mine"); !slices.Equal(got, want) {
		t.Errorf("read-events printed %d lines, want %d:\n%.2000s", len(got), len(want), strings.Join(got, "\n"))
	}
	if out, err := publish("mine"); err == nil || !bytes.Contains(out, []byte("err_code=10071")) {
		t.Errorf("an id that is taken: %v\n%s", err, out)
	}
}

// A task ends well, or badly, or is refused: the example says which.
func TestSubmitTaskExample(t *testing.T) {
	bin, lab := install(t, "./cmd/linesman", "./examples/submit-task"), t.TempDir()
	for name, body := range map[string]string{
		"good.jsonl":    text(t, "test/corpus/codex/shell-ok.jsonl"),
		"bad.jsonl":     text(t, "test/corpus/codex/failed.jsonl"),
		"agent.sh":      "for prompt; do :; done\ncat '" + lab + "'/\"$prompt\".jsonl\n[ \"$prompt\" = good ]\n",
		"linesman.toml": fmt.Sprintf("[agents.codex]\ncommand = ['/bin/sh', %q]\n", filepath.Join(lab, "agent.sh")),
	} {
		if err := os.WriteFile(filepath.Join(lab, name), []byte(body), 0o600); err != nil {
			t.Fatal(err)
		}
	}
	i := up(t, filepath.Join(bin, "linesman"), t.TempDir(), "--config", filepath.Join(lab, "linesman.toml"))
	for _, tt := range []struct{ prompt, stdout, stderr string }{
		{"good", "Two files.\n", ""},
		{"bad", "Failed: exit status 1: Codex ran out of room", "submit-task: the task is failed\n"},
		{" ", "", "submit-task: submit: prompt: must not be blank\n"},
	} {
		ctx, cancel := context.WithTimeout(t.Context(), time.Minute)
		defer cancel()
		var stdout, stderr bytes.Buffer
		cmd := exec.CommandContext(ctx, filepath.Join(bin, "submit-task"), tt.prompt)
		cmd.Env, cmd.Stdout, cmd.Stderr = i.as("operator"), &stdout, &stderr
		err := cmd.Run()
		if (err == nil) != (tt.stderr == "") || !strings.HasPrefix(stdout.String(), tt.stdout) ||
			!strings.HasSuffix(stderr.String(), tt.stderr) {
			t.Errorf("%q: %v\n%s%s", tt.prompt, err, stdout.String(), stderr.String())
		}
	}
}

// sendRaw publishes the output of a run without a fence, in the given pieces,
// and then its end.
func sendRaw(t *testing.T, i *instance, run string, output []byte, pieces [][2]int) {
	t.Helper()
	nc, err := nats.Connect(i.NATS, nats.UserInfo("worker", i.credentials["worker"]),
		nats.CustomInboxPrefix("_INBOX_worker"), nats.Timeout(fixture.Patience))
	if err != nil {
		t.Fatal(err)
	}
	defer nc.Close()
	js, err := jetstream.New(nc, jetstream.WithDefaultTimeout(fixture.Patience))
	if err != nil {
		t.Fatal(err)
	}
	send := func(record string, offset int, body []byte) {
		m := &nats.Msg{Subject: "linesman.raw.codex." + run, Header: nats.Header{}, Data: body}
		m.Header.Set("Linesman-Record", record)
		m.Header.Set("Linesman-Time", "1")
		m.Header.Set("Linesman-Offset", strconv.Itoa(offset))
		if _, err := js.PublishMsg(t.Context(), m); err != nil {
			t.Fatal(err)
		}
	}
	for _, p := range pieces {
		send("out", p[0], output[p[0]:p[1]])
	}
	send("exit", 0, []byte(`{"reason":"eof"}`))
}

func TestOutputSentTwiceIsTakenOnce(t *testing.T) {
	bin := install(t, "./cmd/linesman", "./examples/read-events")
	i := up(t, filepath.Join(bin, "linesman"), t.TempDir())
	recording := []byte(text(t, "test/corpus/codex/shell-ok.jsonl"))
	n := len(recording)
	for name, tt := range map[string]struct {
		pieces [][2]int
		gaps   int
	}{
		"whole":       {[][2]int{{0, n}}, 0},
		"twice":       {[][2]int{{0, n / 2}, {0, n / 2}, {n / 2, n}, {n / 2, n}}, 0},
		"overlapping": {[][2]int{{0, n / 2}, {n / 3, n - 10}, {0, n}}, 0},
		"late":        {[][2]int{{0, 10}, {n - 20, n}, {10, n - 20}}, 1},
	} {
		t.Run(name, func(t *testing.T) {
			sendRaw(t, i, name, recording, tt.pieces)
			got := readEvents(t, filepath.Join(bin, "read-events"), i, name)
			if gaps := strings.Count(strings.Join(got, "\n"), "codex stream gap (redacted)"); gaps != tt.gaps {
				t.Errorf("%d gaps, want %d", gaps, tt.gaps)
			}
			if want := bodies(recording); tt.gaps == 0 && !slices.Equal(got, want) {
				t.Errorf("%d events, want %d:\n%s", len(got), len(want), strings.Join(got, "\n"))
			}
		})
	}
}

func TestEventsComeAgainFromRaw(t *testing.T) {
	bin := install(t, "./cmd/linesman", "./examples/read-events")
	program, data := filepath.Join(bin, "linesman"), t.TempDir()
	recording := []byte(text(t, "test/corpus/codex/shell-ok.jsonl"))
	i := up(t, program, data)
	for run := range 3 {
		sendRaw(t, i, fmt.Sprintf("run-%d", run), recording, [][2]int{{0, len(recording)}})
	}
	want := readEvents(t, filepath.Join(bin, "read-events"), i, "run-2")
	i.Stop()
	if err := os.RemoveAll(filepath.Join(data,
		"jetstream/jetstream/LINESMAN_PUBLIC/streams/LINESMAN_EVENTS")); err != nil {
		t.Fatal(err)
	}
	i = up(t, program, data)
	for run := range 3 {
		if got := readEvents(t, filepath.Join(bin, "read-events"), i, fmt.Sprintf("run-%d", run)); !slices.Equal(got, want) {
			t.Errorf("run %d: %d events, want %d:\n%s", run, len(got), len(want), strings.Join(got, "\n"))
		}
	}
}
