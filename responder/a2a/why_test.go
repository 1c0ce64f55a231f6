package a2a_test

import (
	"strings"
	"testing"

	"github.com/nats-io/nats.go/jetstream"

	"github.com/linesman/linesman/bus"
	"github.com/linesman/linesman/responder"
	"github.com/linesman/linesman/test/fixture"
)

func TestErrorsNameTheCauseInTheStreams(t *testing.T) {
	t.Parallel()
	d := newLab(t).endpointOf(responder.Config{Cause: bus.Cause}, nil)
	if err := d.service.Ready(t.Context()); err != nil {
		t.Fatal(err)
	}
	js, err := jetstream.New(d.write.Inside(), jetstream.WithDefaultTimeout(fixture.Patience))
	if err != nil {
		t.Fatal(err)
	}
	if err := js.DeleteStream(t.Context(), d.bus.Raw()); err != nil {
		t.Fatal(err)
	}
	_, got := d.post("/a2a", `{"jsonrpc":"2.0","id":1,"method":"GetTask","params":{"id":"T-1"}}`, "A2A-Version", "1.0")
	if !strings.Contains(got.Raw, "a stream does not exist") {
		t.Errorf("got %s", got.Raw)
	}
}
