package worker

import (
	"encoding/json"
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"golang.org/x/sys/unix"

	"github.com/linesman/linesman/agent/known"
	"github.com/linesman/linesman/runs"
	"github.com/linesman/linesman/worker/sessionlog"
)

const (
	thisThread  = "01a21d3a-a9d8-7673-90a0-b1a8c86561e2"
	otherThread = "01a21d3a-ac35-77c0-b023-edd143a7b9b6"
)

// codexLog returns a log of Codex with the total of n requests; its lines were written at a time.
func codexLog(meta, at string, n int) string {
	usage := func(n int) string {
		return fmt.Sprintf(`{"input_tokens":%d,"cached_input_tokens":%d,"output_tokens":%d}`, 1200*n, 1000*n, 80*n)
	}
	log := fmt.Sprintf(`{"timestamp":%q,"type":"session_meta","payload":{%s}}`+"\n", at, meta)
	for i := range n {
		log += fmt.Sprintf(`{"timestamp":%q,"type":"event_msg","payload":{"type":"agent_message","message":"SECRET"}}`+"\n", at)
		log += fmt.Sprintf(`{"timestamp":%q,"type":"event_msg","payload":{"type":"token_count","info":`+
			`{"total_token_usage":%s,"last_token_usage":%s}}}`+"\n", at, usage(i+1), usage(1))
	}
	return log
}

const (
	past   = "2020-01-01T00:00:00.000Z"
	future = "2100-01-01T00:00:00.000Z"
)

func requests(n int64) *runs.Usage {
	return &runs.Usage{Input: 1200 * n, CachedInput: 1000 * n, Output: 80 * n}
}

// logged returns what the note of a run says, nil if there is none.
func (l *fixture) logged(run string) *runs.Logged {
	l.t.Helper()
	for _, e := range l.entries(run) {
		var r runs.Remark
		if e.Kind == runs.Note && json.Unmarshal(e.Body, &r) == nil && r.Logged != nil {
			if strings.Contains(string(e.Body), "SECRET") {
				l.t.Errorf("the note: %s", e.Body)
			}
			return r.Logged
		}
	}
	return nil
}

func TestLogsOfTheSessionTellWhatARunHasUsed(t *testing.T) {
	t.Parallel()
	root, sub := fmt.Sprintf(`"id":%q,"session_id":%[1]q`, thisThread), fmt.Sprintf(`"id":%q,"session_id":%q,"source":{"subagent":"x"}`,
		otherThread, thisThread)
	older := fmt.Sprintf(`"id":%q,"source":{"subagent":{"thread_spawn":{"parent_thread_id":%q}}}`, otherThread, thisThread)
	for _, c := range []struct {
		why  string
		logs map[string]string // by the name of a day and the end of the file's name
		want *runs.Logged
	}{
		{"no logs", nil, nil},
		{"of another session", map[string]string{"27/x": codexLog(fmt.Sprintf(`"id":%q`, otherThread), future, 1)}, nil},
		{"its log", map[string]string{"27/x": codexLog(root, future, 2)}, &runs.Logged{Own: requests(2), All: true}},
		{"its log, and those of sub-agents",
			map[string]string{
				"27/x": codexLog(root, future, 2), "27/y": codexLog(sub, future, 1), "28/z": codexLog(older, future, 3),
			},
			&runs.Logged{Own: requests(2), Subagents: requests(4), All: true}},
		{"the sub-agent alone", map[string]string{"27/x": codexLog(sub, future, 1)}, &runs.Logged{Subagents: requests(1)}},
		{"lines from before the run", map[string]string{"27/x": codexLog(root, past, 3) + codexLog(root, future, 0)},
			&runs.Logged{Own: requests(0), All: true}},
		{"a log that is too long", map[string]string{"27/x": codexLog(root, future, 2), "27/y": codexLog(sub, future, 1) + "LONG"},
			&runs.Logged{Own: requests(2), Partial: true}},
		{"a link to the directory of the agent", map[string]string{"27/x": codexLog(root, future, 2)},
			&runs.Logged{Own: requests(2), All: true}},
	} {
		t.Run(c.why, func(t *testing.T) {
			t.Parallel()
			l, home := newFixture(t), t.TempDir()
			l.w.cfg.Agents = known.Agents
			for name, text := range c.logs {
				day, end, _ := strings.Cut(name, "/")
				path := filepath.Join(home, "sessions", "2026", "11", day, "rollout-"+end+".jsonl")
				if err := os.MkdirAll(filepath.Dir(path), 0o700); err != nil {
					t.Fatal(err)
				}
				text, long := strings.CutSuffix(text, "LONG")
				write(t, path, text)
				if long {
					if err := os.Truncate(path, sessionlog.MaxBytes+1); err != nil {
						t.Fatal(err)
					}
				}
				if err := unix.Mkfifo(path[:len(path)-len("jsonl")]+"fifo.jsonl", 0o600); err != nil {
					t.Fatal(err)
				}
			}
			spec := shell("run", `echo '{"type":"thread.started","thread_id":"`+thisThread+`"}'`)
			if strings.HasPrefix(c.why, "a link") {
				link := filepath.Join(t.TempDir(), "link")
				if err := os.Symlink(home, link); err != nil {
					t.Fatal(err)
				}
				home = link
			}
			spec.Env = append(spec.Env, "CODEX_HOME=/nowhere", "CODEX_HOME="+home)
			l.drive(spec)
			got, _ := json.Marshal(l.logged("run"))
			if want, _ := json.Marshal(c.want); string(got) != string(want) {
				t.Errorf("%s, want %s", got, want)
			}
		})
	}
}

// What the thread had used that a command line resumes or forks is in the start entry, before
// the agent is started.
func TestStartSaysWhatTheThreadHadUsed(t *testing.T) {
	t.Parallel()
	l, home, bin := newFixture(t), t.TempDir(), t.TempDir()
	l.w.cfg.Agents = known.Agents
	dir := filepath.Join(home, "sessions", "2026", "11", "27")
	if err := os.MkdirAll(dir, 0o700); err != nil {
		t.Fatal(err)
	}
	log := filepath.Join(dir, "rollout-x-"+thisThread+".jsonl")
	write(t, log, codexLog(fmt.Sprintf(`"id":%q`, thisThread), past, 3))
	program := filepath.Join(bin, "codex")
	if err := os.WriteFile(program, []byte("#!/bin/sh\necho line >> "+log+"\n"), 0o700); err != nil {
		t.Fatal(err)
	}
	for run, c := range map[string]struct {
		args   []string
		thread string
		before int64
	}{
		"resume":  {[]string{"exec", "--json", "resume", thisThread, "Two."}, thisThread, 3},
		"fork":    {[]string{"exec", "--json", "fork", thisThread, "Two."}, thisThread, 3},
		"unknown": {[]string{"exec", "--json", "resume", otherThread, "Two."}, otherThread, 0},
		"last":    {[]string{"exec", "--json", "resume", "--last", "Two."}, "", 0},
		"new":     {[]string{"exec", "--json", thisThread}, "", 0},
	} {
		spec := shell(run, "")
		spec.Argv = append([]string{program}, c.args...)
		spec.Env = append(spec.Env, "CODEX_HOME="+home)
		l.drive(spec)
		var start runs.Start
		if err := json.Unmarshal(l.entries(run)[0].Body, &start); err != nil {
			t.Fatal(err)
		}
		if start.Earlier() != c.thread || (start.ForkedFrom != "") != (run == "fork") ||
			(start.Before == nil) != (c.before == 0) ||
			start.Before != nil && start.Before.Usage != *requests(c.before) {
			t.Errorf("%s: thread %q, copy of %q, before %+v", run, start.Thread, start.ForkedFrom, start.Before)
		}
	}
}

// A sub-agent of Claude Code can repeat messages of its parent: each is counted once.
func TestMessageInTwoLogsIsCountedOnce(t *testing.T) {
	t.Parallel()
	l, home := newFixture(t), t.TempDir()
	l.w.cfg.Agents = known.Agents
	message := func(id, more string) string {
		return fmt.Sprintf(`{"type":"assistant","parentUuid":null,"sessionId":%q,"entrypoint":"sdk-cli","timestamp":%q%s,"message":`+
			`{"id":%q,"role":"assistant","stop_reason":"end_turn","content":[{"type":"text","text":"SECRET"}],`+
			`"usage":{"input_tokens":200,"cache_read_input_tokens":1000,"output_tokens":80}}}`+"\n", thisThread, future, more, id)
	}
	project := filepath.Join(home, "projects", "p")
	if err := os.MkdirAll(filepath.Join(project, thisThread, "subagents"), 0o700); err != nil {
		t.Fatal(err)
	}
	const sub = `,"agentId":"a1","isSidechain":true`
	write(t, filepath.Join(project, thisThread+".jsonl"), message("m1", "")+message("m1", "")+message("m2", ""))
	write(t, filepath.Join(project, thisThread, "subagents", "agent-a1.jsonl"), message("m1", sub)+message("m3", sub))
	spec := shell("run", `echo '{"type":"system","subtype":"init","session_id":"`+thisThread+`"}'`)
	spec.Agent, spec.Env = "claude_code", append(spec.Env, "CLAUDE_CONFIG_DIR="+home)
	l.drive(spec)
	got := l.logged("run")
	if got == nil || got.Own == nil || *got.Own != *requests(2) || got.All || got.Partial ||
		got.Subagents == nil || *got.Subagents != *requests(1) {
		t.Errorf("%+v", got)
	}
}
