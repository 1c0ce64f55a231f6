package rest_test

import (
	"context"
	"fmt"
	"net/http"
	"testing"

	"github.com/nats-io/nats.go"
	"github.com/nats-io/nats.go/jetstream"

	"github.com/linesman/linesman/api"
	"github.com/linesman/linesman/bus"
	"github.com/linesman/linesman/bus/embedded"
	"github.com/linesman/linesman/runs"
	"github.com/linesman/linesman/test/fixture"
	"github.com/linesman/linesman/test/fixture/servicetest"
)

// The events of a run can age out before its record: reading their pages ends.
func TestPagesOfEventsThatHaveAgedOutAreDone(t *testing.T) {
	t.Parallel()
	s := newStage(t, nil)
	s.play("done", "shell-ok", 0)
	var page api.EventPage
	s.want(http.StatusOK, "GET", "/v1/runs/done/events?limit=2", "").read(t, &page)
	if page.Done || len(page.Events) != 2 {
		t.Fatalf("%+v", page)
	}
	s.purge()
	for _, after := range []uint64{0, page.Next} {
		var rest api.EventPage
		s.want(http.StatusOK, "GET", fmt.Sprint("/v1/runs/done/events?after=", after), "").read(t, &rest)
		if len(rest.Events) != 0 || !rest.Done || rest.Next != after {
			t.Errorf("behind %d: %+v", after, rest)
		}
	}
}

// purge ages out all events.
func (s *stage) purge() {
	s.T.Helper()
	credentials, err := embedded.LoadCredentials(s.Dir)
	if err != nil {
		s.T.Fatal(err)
	}
	_, login := credentials.Logins(s.Server.URL(), embedded.OperatorUser)
	conn, err := nats.Connect(login.URL, nats.UserInfo(login.User, login.Password),
		nats.CustomInboxPrefix(bus.InboxPrefix(login.User)), nats.Timeout(fixture.Patience))
	if err != nil {
		s.T.Fatal(err)
	}
	defer conn.Close()
	js, err := jetstream.New(conn, jetstream.WithDefaultTimeout(fixture.Patience))
	if err != nil {
		s.T.Fatal(err)
	}
	events, err := js.Stream(s.T.Context(), s.Bus.Events())
	if err == nil {
		err = events.Purge(s.T.Context())
	}
	if err != nil {
		s.T.Fatal(err)
	}
}

// A resumed task works, and the events of its first run, which has ended, have
// aged out: a stream of them ends.
func TestStreamOfAnEarlierRunOfATaskEndsThoughItsEventsAgedOut(t *testing.T) {
	t.Parallel()
	s := newStage(t, nil)
	asks := runs.ExitNeedsAgent
	s.Begin("codex", "T-local-task", runs.Start{Source: "run"}).OutIn(servicetest.Recording(t, "shell-ok.jsonl"), 300).
		Append(runs.Entry{Kind: runs.Exited, Body: runs.Encode(runs.Exit{Reason: runs.ReasonExited, Code: &asks})})
	s.Await("T-local-task", func(v runs.Header) bool { return v.Waits() })
	s.purge()
	for _, works := range []bool{false, true} {
		if works {
			s.Begin("codex", "T-local-task-2",
				runs.Start{Source: "run",
					Attributes: runs.Attributes{Labels: runs.LabelsOf(map[string]string{runs.LabelContinues: "T-local-task"})}})
			s.Await("T-local-task", func(v runs.Header) bool { return v.State == runs.StateWorking })
		}
		var page api.EventPage
		s.want(http.StatusOK, "GET", "/v1/runs/T-local-task/events", "").read(t, &page)
		if len(page.Events) != 0 || !page.Done {
			t.Errorf("gone on with: %v: %+v", works, page)
		}
		ctx, leave := context.WithTimeout(t.Context(), fixture.Patience)
		answer := s.stream(ctx, "T-local-task", "", false)
		frames(t, answer.Body, func(frame) bool { return true })
		if ctx.Err() != nil {
			t.Errorf("gone on with: %v: the stream stays open", works)
		}
		leave()
		_ = answer.Body.Close()
	}
}
