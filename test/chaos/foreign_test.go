package chaos

import (
	"fmt"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/nats-io/nats-server/v2/server"

	"github.com/linesman/linesman/runs"
	"github.com/linesman/linesman/test/fixture"
)

// Somebody else writes to EVENTS. The normalizer stores nothing behind what it
// does not know, and ends with a word about it; without that stream the next
// one makes EVENTS again.
func TestForeignEventEndsTheNormalizerAndIsGotRidOf(t *testing.T) {
	t.Parallel()
	s := newRoles(t, drawn(t, 0), startNATS(t).url)
	open := s.run("endless", nil, "pace=20")
	s.talked([]string{open}, 20_000)
	server := s.server()
	foreign := s.names.EventSubject("codex", "x", "status")
	if _, err := server.Public.Publish(t.Context(), foreign, []byte(`{"forged":true}`)); err != nil {
		t.Fatal(err)
	}
	normalizer := s.roles["normalizer"]
	if code := normalizer.code(); code != 1 || !strings.Contains(normalizer.said(),
		"somebody else wrote to the event stream") {
		t.Errorf("the normalizer ends with %d, and says %s", code, normalizer.said())
	}
	s.talked([]string{open}, 20_000) // agents and workers go on
	again := start(t, filepath.Join(s.dir, "home"), s.log("again"), s.at(filepath.Join(s.dir, "office"), "normalizer")...)
	if code := again.code(); code != 1 || strings.Count(again.said(), "\n") > 5 {
		t.Errorf("the next one ends with %d, and says %s", code, again.said())
	}
	if err := server.Public.DeleteStream(t.Context(), s.names.Events()); err != nil { // as docs/operations.md says
		t.Fatal(err)
	}
	s.begin("normalizer")
	s.touch(open, "stop")
	s.check()
}

// A file is tailed that says nothing for longer than RAW keeps what it said.
// When it goes on so does its run: nothing is told twice, nothing is missing.
func TestIdleFileGoesOnAfterItsBeginningHasAgedOut(t *testing.T) {
	t.Parallel()
	for _, c := range []struct {
		name   string
		killed bool
	}{{"the same tail", false}, {"another tail", true}} {
		t.Run(c.name, func(t *testing.T) {
			t.Parallel()
			s := newSite(t, drawn(t, 0), "[raw]\nmax_age = '2s'")
			s.url = startNATS(t).url
			s.data = []string{filepath.Join(s.dir, "worker-a")}
			s.begin("normalizer")
			path := filepath.Join(s.dir, "foreign.jsonl")
			var written strings.Builder
			say := func(n int) {
				f, err := os.OpenFile(path, os.O_WRONLY|os.O_CREATE|os.O_APPEND, 0o600)
				if err != nil {
					t.Fatal(err)
				}
				defer f.Close()
				for i := range n {
					line := fmt.Sprintf(`{"type":"item.completed","item":{"id":"item_%d","type":"agent_message","text":"line %d"}}`+
						"\n", i, written.Len())
					if _, err := f.WriteString(line); err != nil {
						t.Fatal(err)
					}
					written.WriteString(line)
				}
			}
			say(5)
			tail := func(log string) *process {
				return start(t, filepath.Join(s.dir, "home"), s.log(log), s.at(s.data[0], "tail", path)...)
			}
			at := tail("run-tail")
			server := s.server()
			var run string
			eventually(t, "the tail is no run", func() (bool, string) {
				begun, err := server.Begun(t.Context())
				if err != nil || len(begun) != 1 {
					return false, fmt.Sprint(begun, err)
				}
				run = begun[0]
				return true, ""
			})
			read := func(what string) {
				s.record(server, run, what, func(r runs.Record) bool { return r.Bytes == int64(written.Len()) })
			}
			read("read")
			gone := func() {
				eventually(t, "RAW keeps all", func() (bool, string) {
					raw, err := server.Inside.Stream(t.Context(), s.names.Raw())
					if err != nil {
						return false, err.Error()
					}
					state := raw.CachedInfo().State
					return state.Msgs == 0 && state.LastSeq > 0, fmt.Sprintf("%+v", state)
				})
			}
			gone()
			if c.killed {
				at.kill()
				say(3) // while nobody looks
				at = tail("run-tail-2")
				read("read by the next")
				gone()
			}
			say(5)
			read("read after its beginning was gone")
			e, err := server.Gather(t.Context())
			if err != nil {
				t.Fatal(err)
			}
			got, want := e.Told(run), Unbroken(run, []byte(written.String()), runs.Exit{Reason: runs.ReasonExited})
			// it has no end yet
			want = slices.DeleteFunc(want, func(event string) bool { return strings.HasPrefix(event, "0.") })
			if strings.Join(got, "\n") != strings.Join(want, "\n") {
				t.Errorf("events:\n%s\nwant:\n%s", strings.Join(got, "\n"), strings.Join(want, "\n"))
			}
			if !at.alive() {
				t.Errorf("tail has ended: %s", at.said())
			}
		})
	}
}

// Two workers have one data directory, by mistake. Each run has one of them.
func TestTwoWorkersOnOneDataDirectoryShareItsRuns(t *testing.T) {
	fixture.Long(t, "kills a worker again and again")
	t.Parallel()
	s := newSite(t, drawn(t, 0), "")
	s.url = startNATS(t).url
	s.data = []string{filepath.Join(s.dir, "worker-a")}
	if err := os.Mkdir(s.data[0], 0o700); err != nil {
		t.Fatal(err)
	}
	if err := os.Symlink("worker-a", filepath.Join(s.dir, "worker-b")); err != nil {
		t.Fatal(err)
	}
	for _, role := range []string{"normalizer", "responder", "worker-a", "worker-b"} {
		s.begin(role)
	}
	siege(s, max(4, min(*rounds, 25)), killWorker)
}

// An account may have fewer streams or bytes than linesman needs: it says so,
// now and then, and goes on once there are more.
func TestAccountLimitsAreSaid(t *testing.T) {
	t.Parallel()
	for _, c := range []struct{ name, limits, want string }{
		{"streams", "max_streams: 3", "maximum number of streams reached"},
		{"bytes", "max_file: 64MB, max_bytes_required: false", "insufficient storage resources"},
	} {
		t.Run(c.name, func(t *testing.T) {
			t.Parallel()
			opts := &server.Options{}
			config := fmt.Sprintf(`accounts { A: { jetstream: { %s }, users: [ { user: "u", password: "p" } ] } }`, c.limits)
			if err := opts.ProcessConfigString(config); err != nil {
				t.Fatal(err)
			}
			opts.Host, opts.Port, opts.JetStream, opts.StoreDir, opts.NoSigs, opts.NoLog = "127.0.0.1", server.RANDOM_PORT, true,
				t.TempDir(), true, true
			opts.JetStreamMaxStore = 1 << 40 // else what it may store depends on the room on this machine's disk
			n, err := server.NewServer(opts)
			if err != nil {
				t.Fatal(err)
			}
			n.Start()
			defer func() { n.Shutdown(); n.WaitForShutdown() }()
			s := newSite(t, drawn(t, 0), "")
			s.url = "nats://u:p@" + n.Addr().String()
			p := start(t, filepath.Join(s.dir, "home"), s.log("normalizer"), s.at(filepath.Join(s.dir, "office"),
				"normalizer")...)
			p.await(0, c.want)
			<-time.After(10 * time.Second) // how long it lasts
			if said := p.said(); strings.Count(said, "\n") > 15 {
				t.Errorf("in 10 s the normalizer says:\n%s", said)
			}
			account, err := n.LookupAccount("A")
			if err != nil {
				t.Fatal(err)
			}
			unlimited := server.JetStreamAccountLimits{MaxMemory: -1, MaxStore: -1, MaxStreams: -1, MaxConsumers: -1}
			if err := account.UpdateJetStreamLimits(map[string]server.JetStreamAccountLimits{"": unlimited}); err != nil {
				t.Fatal(err)
			}
			p.await(0, "normalizer reading")
		})
	}
}
