package rest_test

import (
	"fmt"
	"net/http"
	"testing"

	"github.com/nats-io/nats.go"
	"github.com/nats-io/nats.go/jetstream"

	"github.com/linesman/linesman/bus"
	"github.com/linesman/linesman/responder/rest"
)

// The events of a run can age out before its record does: who reads pages of
// them comes to an end all the same.
func TestPagesOfEventsThatHaveAgedOutAreDone(t *testing.T) {
	s := newStage(t, nil)
	s.play("done", "shell-ok", 0)
	var page rest.EventPage
	s.want(http.StatusOK, "GET", "/v1/runs/done/events?limit=2", "").read(t, &page)
	if page.Done || len(page.Events) != 2 {
		t.Fatalf("%+v", page)
	}
	credentials, err := bus.LoadCredentials(s.dir)
	if err != nil {
		t.Fatal(err)
	}
	_, login := credentials.Logins(s.server.URL(), bus.OperatorUser)
	conn, err := nats.Connect(login.URL, nats.UserInfo(login.User, login.Password), nats.CustomInboxPrefix(bus.InboxPrefix(login.User)))
	if err != nil {
		t.Fatal(err)
	}
	defer conn.Close()
	js, err := jetstream.New(conn)
	if err != nil {
		t.Fatal(err)
	}
	events, err := js.Stream(t.Context(), s.bus.Events())
	if err == nil {
		err = events.Purge(t.Context())
	}
	if err != nil {
		t.Fatal(err)
	}
	for _, after := range []uint64{0, page.Next} {
		var rest rest.EventPage
		s.want(http.StatusOK, "GET", fmt.Sprint("/v1/runs/done/events?after=", after), "").read(t, &rest)
		if len(rest.Events) != 0 || !rest.Done || rest.Next != after {
			t.Errorf("behind %d: %+v", after, rest)
		}
	}
}
