package runs_test

import (
	"strings"
	"testing"

	"github.com/linesman/linesman/runs"
)

const (
	second = 1000
	minute = 60 * second
	hour   = 60 * minute
)

func TestDoingForPeople(t *testing.T) {
	const now = 1_000 * hour
	for _, c := range []struct {
		doing runs.Doing
		want  string
	}{
		{runs.Doing{}, ""},
		{runs.Doing{Since: 1}, ""},
		{runs.Doing{Phase: "new phase", Since: 1}, ""},
		{runs.Doing{Phase: "starting", Since: now}, "starting"},
		{runs.Doing{Phase: runs.Thinking, Since: now - 9_999}, "thinking"},
		{runs.Doing{Phase: runs.Thinking, Since: now - 10_000}, "thinking for 10 s"},
		{runs.Doing{Phase: runs.Thinking, Since: now + minute}, "thinking"},
		{runs.Doing{Phase: runs.Thinking}, "thinking"},
		{runs.Doing{Phase: runs.Writing, Since: now - minute + 1}, "writing for 59 s"},
		{runs.Doing{Phase: runs.RunningTool, Tool: "Bash", Since: now - 2*minute - 59*second}, "running Bash for 2m"},
		{runs.Doing{Phase: runs.RunningTool, Tool: "Bash", Since: now - hour}, "running Bash for 1h"},
		{runs.Doing{Phase: runs.RunningTool, Tool: "Bash", Since: now - hour - 5*minute}, "running Bash for 1h5m"},
		{runs.Doing{Phase: runs.RunningTool, Since: now - 50*hour}, "running a tool for 2d2h"},
		{runs.Doing{Phase: runs.Retrying, Since: now - hour}, "retrying the model for 1h"},
		{runs.Doing{Phase: runs.Retrying, Attempt: 3, Of: 10, NextAt: now + 40*second, Since: now - minute},
			"retrying the model (3 of 10, next in 40 s)"},
		{runs.Doing{Phase: runs.Retrying, Attempt: 3, Of: 10, NextAt: now + 1, Since: now}, "retrying the model (3 of 10, next in 1 s)"},
		{runs.Doing{Phase: runs.Retrying, Attempt: 3, Of: 10, NextAt: now}, "retrying the model (3 of 10)"},
		{runs.Doing{Phase: runs.Retrying, Attempt: 3}, "retrying the model (attempt 3)"},
		{runs.Doing{Phase: runs.RateLimited, Since: now}, "rate-limited"},
		{runs.Doing{Phase: runs.RateLimited, NextAt: now + 2*hour}, "rate-limited (next in 2h)"},
		{runs.Doing{Phase: runs.Compacting, Since: now - minute}, "compacting for 1m"},
		{runs.Doing{Phase: runs.AwaitingAgent}, "waiting for a sub-agent"},
		{runs.Doing{Phase: runs.AwaitingInput, Since: now - 3*minute}, "waiting for an answer for 3m"},
	} {
		if got := c.doing.Text(now); got != c.want {
			t.Errorf("%+v: %q, want %q", c.doing, got, c.want)
		}
	}
}

func TestSilence(t *testing.T) {
	const now = 1_000 * hour
	thinking := runs.Doing{Phase: runs.Thinking, Since: now - hour}
	for _, c := range []struct {
		why    string
		row    runs.Header
		silent int64
		text   string
	}{
		{"less than a minute", runs.Header{Summary: runs.Summary{State: runs.StateWorking, ActiveAt: now - minute + 1, Doing: &thinking}}, 0, "thinking for 1h"},
		{"a minute", runs.Header{Summary: runs.Summary{State: runs.StateWorking, ActiveAt: now - minute, Doing: &thinking}}, minute, "thinking, silent for 1m"},
		{"no output yet", runs.Header{Summary: runs.Summary{State: runs.StateWorking, StartedAt: now - 3*minute}}, 3 * minute, "silent for 3m"},
		{"a tool", runs.Header{Summary: runs.Summary{State: runs.StateWorking, ActiveAt: now - hour,
			Doing: &runs.Doing{Phase: runs.RunningTool, Tool: "Bash"}}}, 0, "running Bash"},
		{"a sub-agent", runs.Header{Summary: runs.Summary{State: runs.StateWorking, ActiveAt: now - hour, Doing: &runs.Doing{Phase: runs.AwaitingAgent}}}, 0,
			"waiting for a sub-agent"},
		{"a question", runs.Header{Summary: runs.Summary{State: runs.StateWorking, ActiveAt: now - hour, Doing: &runs.Doing{Phase: runs.AwaitingInput}}}, 0,
			"waiting for an answer"},
		{"before the next attempt", runs.Header{Summary: runs.Summary{State: runs.StateWorking, ActiveAt: now - hour,
			Doing: &runs.Doing{Phase: runs.Retrying, NextAt: now + minute}}}, 0, "retrying the model (next in 1m)"},
		{"after it", runs.Header{Summary: runs.Summary{State: runs.StateWorking, ActiveAt: now - hour, Doing: &runs.Doing{Phase: runs.Retrying, NextAt: now}}},
			hour, "retrying the model, silent for 1h"},
		{"an ended run", runs.Header{Summary: runs.Summary{State: runs.StateCompleted, ActiveAt: now - hour, Doing: &thinking}}, 0, ""},
		{"a queued run", runs.Header{Summary: runs.Summary{State: runs.StateQueued, QueuedAt: now - hour}}, 0, ""},
		{"output in the future", runs.Header{Summary: runs.Summary{State: runs.StateWorking, ActiveAt: now + hour}}, 0, ""},
	} {
		if got := c.row.Silence(now); got != c.silent {
			t.Errorf("%s: silent for %d ms, want %d", c.why, got, c.silent)
		}
		if got := c.row.DoingText(now); got != c.text {
			t.Errorf("%s: %q, want %q", c.why, got, c.text)
		}
	}
}

// working returns the record of a started run.
func working(source string) *runs.Record {
	r := runs.NewRecord("T-local-test", "codex")
	r.Entry(runs.Entry{Kind: runs.Started, Time: second, Body: runs.Encode(runs.Start{Source: source})})
	return r
}

func TestOnlyAStartedAgentIsStarting(t *testing.T) {
	for source, want := range map[string]runs.Phase{
		"run": "starting", "queue": "starting", "tail": "", "session": "", "pipe": "", "cloud": "",
	} {
		if got := working(source).Doing; got.Phase != want || want != "" && got.Since != second {
			t.Errorf("%s: %+v, want %q", source, got, want)
		}
	}
}

func TestDoingIsBounded(t *testing.T) {
	r := working("run")
	call := runs.Call{ID: "a", Name: strings.Repeat("é\x1b", 100), Kind: strings.Repeat("k", 60)}
	r.Line(runs.Facts{Opened: call}, second)
	if got := r.Doing.Tool; len(got) > 64 || strings.Contains(got, "\x1b") || got == "" {
		t.Errorf("the name of a tool is %q", got)
	}
	r.Line(runs.Facts{Doing: runs.Doing{Phase: runs.RunningTool, Tool: strings.Repeat("token=x ", 20)}}, second)
	if got := r.Doing.Tool; len(got) > 64 {
		t.Errorf("the name of a tool has %d bytes", len(got))
	}
	const month = 30 * 24 * hour
	for _, f := range []runs.Facts{
		{Doing: runs.Doing{Phase: runs.RateLimited}, NextIn: 1 << 62}, {Doing: runs.Doing{Phase: runs.RateLimited}, NextAt: 1 << 62},
	} {
		r.Line(f, hour)
		if got := r.Doing.NextAt; got != hour+month {
			t.Errorf("the next attempt is at %d", got)
		}
	}
	r.Line(runs.Facts{Doing: runs.Doing{Phase: runs.RateLimited}, NextAt: hour - 1}, hour)
	if got := r.Doing.NextAt; got != 0 {
		t.Errorf("the next attempt was at %d", got)
	}
}

func TestDoingLastsWhileItIsTheSame(t *testing.T) {
	r := working("run")
	r.Line(runs.Facts{Turn: runs.TurnStarted, Doing: runs.Doing{Phase: runs.Thinking}}, 2*second)
	r.Line(runs.Facts{Doing: runs.Doing{Phase: runs.Thinking}}, 3*second)
	r.Line(runs.Facts{Step: true}, 4*second)
	if got := r.Doing; got != (runs.Doing{Phase: runs.Thinking, Since: 2 * second}) {
		t.Errorf("%+v", got)
	}
	r.Line(runs.Facts{Opened: runs.Call{ID: "a", Name: "A"}}, 5*second)
	r.Line(runs.Facts{Opened: runs.Call{ID: "b", Name: "B"}}, 6*second)
	r.Line(runs.Facts{Closed: "b"}, 7*second)
	if got := r.Doing; got != (runs.Doing{Phase: runs.RunningTool, Tool: "A", Since: 5 * second}) {
		t.Errorf("%+v", got)
	}
	code := 0
	r.End(runs.Exit{Reason: runs.ReasonExited, Code: &code}, 8*second)
	if r.Doing != (runs.Doing{}) {
		t.Errorf("after the end: %+v", r.Doing)
	}
}

func TestRowKeepsWhatTheAgentIsDoing(t *testing.T) {
	r := working("session")
	r.LineTime(second/2, second)
	r.Line(runs.Facts{Doing: runs.Doing{Phase: runs.RateLimited, Attempt: 1, Of: 2}, NextIn: second}, second)
	row, err := runs.ParseHeader(r.Header().Text(), nil)
	if err != nil || row.Doing == nil || *row.Doing != r.Doing || row.Times != "written" {
		t.Errorf("%+v, times %s, %v; want %+v", row.Doing, row.Times, err, r.Doing)
	}
}

// The times of a log are never after the capture, and do not decrease.
func TestLineTimes(t *testing.T) {
	r := working("session")
	r.Entry(runs.Entry{Kind: runs.Out, Time: hour})
	for _, c := range []struct{ at, captured, want int64 }{
		{0, hour, hour}, // before the first line with a time
		{500, hour, 500}, {400, hour, 500}, {700, hour, 700}, {0, hour, 700}, {-5, hour, 700}, {2 * hour, hour, hour},
		{3 * hour, 2 * hour, 2 * hour},
	} {
		if got := r.LineTime(c.at, c.captured); got != c.want {
			t.Errorf("line of %d, captured at %d: %d, want %d", c.at, c.captured, got, c.want)
		}
	}
	r.Entry(runs.Entry{Kind: runs.Out, Time: 9 * hour})
	r.End(runs.Exit{Reason: runs.ReasonEOF}, 10*hour)
	if r.StartedAt != 500 || r.ActiveAt != 2*hour || r.EndedAt != 2*hour {
		t.Errorf("started at %d, active at %d, ended at %d", r.StartedAt, r.ActiveAt, r.EndedAt)
	}
	killed := working("session")
	killed.LineTime(500, hour)
	killed.End(runs.Exit{Reason: runs.ReasonLost}, 10*hour)
	if killed.EndedAt != 10*hour {
		t.Errorf("a lost run ended at %d", killed.EndedAt)
	}
}
