package daemon_test

import (
	"bytes"
	"errors"
	"fmt"
	"io/fs"
	"maps"
	"os"
	"path/filepath"
	"regexp"
	"slices"
	"strings"
	"testing"

	"github.com/nats-io/nats.go"

	"github.com/linesman/linesman/api"
	"github.com/linesman/linesman/bus"
	"github.com/linesman/linesman/bus/embedded"
	"github.com/linesman/linesman/client"
	"github.com/linesman/linesman/config"
	"github.com/linesman/linesman/daemon/daemontest"
	"github.com/linesman/linesman/internal/files"
	"github.com/linesman/linesman/runs"
	"github.com/linesman/linesman/test/fixture"
	"github.com/linesman/linesman/test/fixture/bustest"
)

// A run that has ended is erased over NATS; an open one is not, nor one whose
// worker still has its directory.
func TestForgetErasesARunThatHasEnded(t *testing.T) {
	t.Parallel()
	var data string
	d := daemontest.Start(t, func(s *config.Config) { data = s.DataDir })
	b, err := d.Server.Connect(bustest.Patient(t), embedded.OperatorUser)
	if err != nil {
		t.Fatal(err)
	}
	ctx, c := t.Context(), client.New(b)
	forget := func(run string, want api.Code) {
		t.Helper()
		f, err := c.Forget(ctx, run)
		var e *api.Error
		if want == "" && (err != nil || f.Entries == 0 || !f.Record) {
			t.Errorf("forget %s: %+v, %v", run, f, err)
		}
		if want != "" && (!errors.As(err, &e) || e.Code != want) {
			t.Errorf("forget %s: %v, want %s", run, err, want)
		}
	}
	task, err := c.Submit(ctx, api.Submission{Task: runs.Task{Prompt: "x"}})
	if err != nil {
		t.Fatal(err)
	}
	forget("T-none", api.NotFound)
	forget(task.Run, api.Conflict)
	if _, err := c.Cancel(ctx, api.Cancel{Run: task.Run}); err != nil {
		t.Fatal(err)
	}
	if _, err := c.Wait(ctx, task.Run, nil); err != nil {
		t.Fatal(err)
	}
	dir := filepath.Join(data, "runs", task.Run)
	fixture.Eventually(t, fixture.Patience, "the worker still has its directory of the run", func() bool {
		_, err := os.Stat(dir)
		return errors.Is(err, fs.ErrNotExist)
	})
	occupy(t, dir)
	forget(task.Run, api.Conflict)
	if err := os.RemoveAll(dir); err != nil {
		t.Fatal(err)
	}
	aside := filepath.Join(data, "jetstream", "damaged")
	if err := os.MkdirAll(filepath.Join(aside, "20260101T000000.000Z", "LINESMAN_RAW"), 0o700); err != nil {
		t.Fatal(err)
	}
	forget(task.Run, "")
	if _, err := os.Stat(aside); !errors.Is(err, fs.ErrNotExist) {
		t.Errorf("files of damaged streams, which may have its content: %v", err)
	}
}

// occupy makes the directory of a run that somebody drives: its owner file is locked. It
// appears with the lock, so that the worker does not take it for one that a killed
// process left.
func occupy(t *testing.T, dir string) {
	t.Helper()
	made := t.TempDir()
	owner, err := os.Create(filepath.Join(made, "owner"))
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { owner.Close() })
	err = errors.Join(files.TryLock(owner), os.MkdirAll(filepath.Dir(dir), 0o700), os.Rename(made, dir))
	if err != nil {
		t.Fatal(err)
	}
}

// The table of docs/operations.md names each stream, bucket and file that has content of a
// run, at work and after its end; once the run is forgotten, none has it.
func TestEveryPlaceWithContentIsInTheTableAndErased(t *testing.T) {
	t.Parallel()
	const secret = "sentinel-of-one-run"
	dir := t.TempDir()
	goOn, program := filepath.Join(dir, "go"), filepath.Join(dir, "codex")
	script := fmt.Sprintf(`#!/bin/sh
cat > /dev/null
echo %[1]s >&2
echo '{"type":"thread.started","thread_id":"%[1]s"}'
echo '{"type":"turn.started"}'
echo '{"type":"item.completed","item":{"id":"item_0","type":"command_execution","command":"cat %[1]s",`+
		`"aggregated_output":"%[1]s","exit_code":0,"status":"completed"}}'
while ! [ -e %[2]s ]; do sleep 0.1; done
echo '{"type":"item.completed","item":{"id":"item_1","type":"agent_message","text":"%[1]s"}}'
echo '{"type":"turn.completed","usage":{"input_tokens":1,"output_tokens":1}}'
`, secret, goOn)
	if err := os.WriteFile(program, []byte(script), 0o700); err != nil {
		t.Fatal(err)
	}
	var data string
	d := daemontest.Start(t, func(s *config.Config) {
		data, s.Work.MaxRuns, s.Work.Roots = s.DataDir, 1, config.List{dir}
		s.Agents["codex"].Command = config.List{program}
	})
	b, err := d.Server.Connect(bustest.Patient(t), embedded.OperatorUser)
	if err != nil {
		t.Fatal(err)
	}
	ctx, c := t.Context(), client.New(b)
	var tasks []string
	for range 2 { // the second one waits in the queue for the first
		task, err := c.Submit(ctx, api.Submission{
			Task: runs.Task{Attributes: runs.Attributes{Title: secret, Dir: dir,
				Labels: runs.LabelsOf(map[string]string{"about": secret})}, Prompt: strings.Repeat(secret+" ", 1000),
				SkipGit: true},
		})
		if err != nil {
			t.Fatal(err)
		}
		tasks = append(tasks, task.Run)
	}
	fixture.Eventually(t, fixture.Patience, "the output of the run is not in EVENTS", func() bool {
		return places(t, b, data, secret)["EVENTS"]
	})
	found := places(t, b, data, secret)
	if err := os.WriteFile(goOn, nil, 0o600); err != nil {
		t.Fatal(err)
	}
	for _, id := range tasks {
		if run, err := c.Wait(ctx, id, nil); err != nil || run.State != runs.StateCompleted {
			t.Fatal(run, err)
		}
		fixture.Eventually(t, fixture.Patience, "the worker still has its directory of the run", func() bool {
			_, err := os.Stat(filepath.Join(data, "runs", id))
			return errors.Is(err, fs.ErrNotExist)
		})
	}
	maps.Copy(found, places(t, b, data, secret))

	page, err := os.ReadFile("../docs/operations.md")
	if err != nil {
		t.Fatal(err)
	}
	_, table, _ := strings.Cut(string(page), "| place | content of a run |")
	table, _, _ = strings.Cut(table, "\n\n")
	var want []string
	for _, row := range regexp.MustCompile("(?m)^\\| `([^`]+)`").FindAllStringSubmatch(table, -1) {
		want = append(want, row[1])
	}
	if got := slices.Sorted(maps.Keys(found)); !slices.Equal(got, slices.Sorted(slices.Values(want))) {
		t.Errorf("content is in %q, the table has %q", got, want)
	}
	for _, id := range tasks {
		if _, err := c.Forget(ctx, id); err != nil {
			t.Fatal(err)
		}
	}
	if left := places(t, b, data, secret); len(left) > 0 {
		t.Errorf("content is left in %q", slices.Sorted(maps.Keys(left)))
	}
}

// places returns the names of the streams and buckets with a message that has the text, and of the
// files of the data directory, but for those of the server.
func places(t *testing.T, b *bus.Bus, data, text string) map[string]bool {
	t.Helper()
	found := map[string]bool{}
	bustest.EachStored(t, b, func(stream, subject string, header nats.Header, body []byte) {
		if strings.Contains(fmt.Sprint(subject, header), text) || bytes.Contains(body, []byte(text)) {
			name := strings.TrimPrefix(stream, "KV_")
			found[strings.TrimPrefix(name, strings.ToUpper(b.Names.Prefix)+"_")] = true
		}
	})
	err := filepath.WalkDir(data, func(path string, e fs.DirEntry, err error) error {
		rel, _ := filepath.Rel(data, path)
		switch {
		case errors.Is(err, fs.ErrNotExist): // it ended meanwhile
			return nil
		case err != nil:
			return err
		case rel == "jetstream":
			return fs.SkipDir
		case !e.Type().IsRegular():
			return nil
		}
		content, err := os.ReadFile(path)
		if err == nil && bytes.Contains(content, []byte(text)) {
			if parts := strings.Split(filepath.ToSlash(rel), "/"); parts[0] == "runs" {
				rel = "runs/RUN/" + strings.Join(parts[2:], "/")
			}
			found[rel] = true
		}
		return nil
	})
	if err != nil {
		t.Fatal(err)
	}
	return found
}
