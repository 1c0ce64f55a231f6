package rest_test

import (
	"net/http"
	"strings"
	"testing"

	"github.com/nats-io/nats.go/jetstream"
	"go.uber.org/zap"

	"github.com/linesman/linesman/bus"
	"github.com/linesman/linesman/bus/embedded"
	"github.com/linesman/linesman/test/fixture"
	"github.com/linesman/linesman/test/fixture/bustest"
)

func TestErrorsNameTheCauseInTheStreams(t *testing.T) {
	t.Parallel()
	s := newStage(t, func(c *config) { c.service.Cause = bus.Cause })
	operator, err := s.Server.Connect(bustest.Patient(t), embedded.OperatorUser, s.Bus.Names, zap.NewNop())
	if err != nil {
		t.Fatal(err)
	}
	defer operator.Close()
	js, err := jetstream.New(operator.Inside(), jetstream.WithDefaultTimeout(fixture.Patience))
	if err != nil {
		t.Fatal(err)
	}
	if err := js.DeleteStream(t.Context(), s.Bus.Raw()); err != nil {
		t.Fatal(err)
	}
	a := s.want(http.StatusServiceUnavailable, "GET", "/v1/runs/T-1", "")
	if !strings.Contains(string(a.body), `"detail":"a stream does not exist`) {
		t.Errorf("got %s", a.body)
	}
}
