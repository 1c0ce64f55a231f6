package e2e

import (
	"os"
	"strings"
	"syscall"
	"testing"

	"github.com/linesman/linesman/test/fixture"
)

func TestRolesAloneOnAnotherServer(t *testing.T) {
	t.Parallel()
	url, data := startNATS(t), t.TempDir()
	at := func(command string, args ...string) []string {
		return append([]string{command, "--nats", url, "--data-dir", data}, args...)
	}
	if _, code := execute(t, at("health")...); code != 3 {
		t.Errorf("health without streams: exit %d, want 3", code)
	}
	early := begin(t, nil, at("run", "--", "true")...)
	if code := early.Code(); code != 125 || !strings.Contains(early.Stderr.String(),
		"the streams are made by `linesman normalizer`") {
		t.Errorf("run without streams: exit %d, want 125 and what to do:\n%s", code, early.Stderr)
	}

	first := begin(t, nil, at("normalizer")...)
	first.Await(first.Stderr, "normalizer reading")
	agent := newScript(t, halves)
	run := begin(t, nil, at("run", "--run", "shared", "--json", "--", agent.path)...)
	run.Await(run.Stdout, `"text":"one"`)
	succeeds(t, at("health")...)

	// Another worker takes the run, another normalizer the office.
	second := begin(t, nil, at("normalizer")...)
	second.Await(second.Stderr, "normalizer ready")
	run.Kill()
	first.Kill()
	worker := begin(t, nil, at("worker")...)
	agent.touch("go")
	out, code := execute(t, at("events", "--run", "shared", "--follow", "--json")...)
	if code != 0 {
		t.Errorf("events: exit %d", code)
	}
	same(t, "events", printed(parse(t, out)), expected(t, said("one", "two"), 3))
	noDirectories(t, data)
	succeeds(t, at("rebuild")...)
	for _, p := range []*fixture.Process{worker, second} {
		p.Signal(syscall.SIGINT)
		if code := p.Code(); code != 0 {
			t.Errorf("%q: exit %d after Ctrl-C\n%s", p.Cmd.Args[1], code, p.Stderr)
		}
	}
	var health *fixture.Process
	if code := 0; !fixture.Poll(fixture.Patience, func() bool {
		health = begin(t, nil, at("health")...)
		code = health.Code()
		return code == 3 && health.Stderr.String() == "linesman: no normalizer is at work\n"
	}) {
		t.Errorf("health without a normalizer: exit %d, want 3 and why:\n%s", code, health.Stderr)
	}
}

// What a pipe reads while its server is gone is stored once it is back.
func TestPipeOutlivesItsServer(t *testing.T) {
	t.Parallel()
	data := t.TempDir()
	first := up(t, data)
	in, w, err := os.Pipe()
	if err != nil {
		t.Fatal(err)
	}
	defer in.Close()
	defer w.Close()
	pipe := begin(t, in, "pipe", "--data-dir", data, "--run", "piped", "--wait")
	write := func(text string) {
		t.Helper()
		if _, err := w.Write(said(text)); err != nil {
			t.Fatal(err)
		}
	}
	follow := begin(t, nil, "events", "--data-dir", data, "--run", "piped", "--follow", "--json")
	write("one")
	follow.Await(follow.Stdout, `"text":"one"`)
	first.Kill()
	pipe.Await(pipe.Stderr, "connection lost")
	write("two")
	up(t, data)
	follow.Await(follow.Stdout, `"text":"two"`)
	write("three")
	if err := w.Close(); err != nil {
		t.Fatal(err)
	}
	if code := pipe.Code(); code != 0 || pipe.Stdout.String() != "piped\n" {
		t.Errorf("exit %d, printed %q, want the run's id\n%s", code, pipe.Stdout, pipe.Stderr)
	}
	if code := follow.Code(); code != 0 {
		t.Errorf("events: exit %d\n%s", code, follow.Stderr)
	}
	var got []string
	for _, r := range parse(t, follow.Stdout.String()) {
		got = append(got, string(r.Event))
	}
	for i, text := range []string{"one", "two", "three"} {
		if len(got) != 4 || !strings.Contains(got[i], `"text":"`+text+`"`) {
			t.Fatalf("events %q, want one, two, three and the completion", got)
		}
	}
}
