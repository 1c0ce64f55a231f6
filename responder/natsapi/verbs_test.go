package natsapi_test

import (
	"context"
	"encoding/json"
	"strings"
	"testing"
	"time"

	"github.com/linesman/linesman/api"
	"github.com/linesman/linesman/responder"
	"github.com/linesman/linesman/responder/natsapi"
	"github.com/linesman/linesman/runs"
	"github.com/linesman/linesman/test/fixture"
	"github.com/linesman/linesman/test/fixture/servicetest"
)

// ask gives a body to every verb of a service whose table was never read: a
// request that is right gets as far as that.
func ask(t *testing.T, body string) map[string]*api.Error {
	t.Helper()
	s := responder.New(responder.Config{Patience: time.Nanosecond})
	answers := map[string]*api.Error{}
	for _, v := range natsapi.VerbEndpoints(s) {
		said, e := v.Do(context.Background(), []byte(body)), new(api.Error)
		if err := json.Unmarshal(said.Body, e); err != nil || said.Code == 0 {
			t.Fatalf("%s: answered %+v, %v", v.Name, said, err)
		}
		answers[v.Name] = e
	}
	return answers
}

func TestRequestsAreReadStrictly(t *testing.T) {
	for body, want := range map[string]api.Code{
		``: api.Unavailable, `{}`: api.Unavailable, " {}\n": api.Unavailable,
		`{"runn":"T-1"}`: api.Validation, `{} {}`: api.Validation, `[]`: api.Validation, `"x"`: api.Validation,
		`{`:                  api.Validation,
		"{\"run\":\"\xff\"}": api.Validation, strings.Repeat(" ", 8<<20) + "{}": api.Validation,
	} {
		for verb, e := range ask(t, body) {
			if e.Code != want {
				t.Errorf("%s of %.20q: %s (%v), want %s", verb, body, e.Code, e, want)
			}
		}
	}
	for _, body := range []string{
		`{"run":"T-1","run":"T-1"}`, `{"prompt":"x","r\u0075n":"a","run":"b"}`, `{"labels":{"a":"b","a":"c"}}`,
		`{"outputSchema":{"a":[1e999,{"b":1,"b":2}]}}`,
	} {
		for verb, e := range ask(t, body) {
			if e.Code != api.Validation {
				t.Errorf("%s of %s: %s (%v)", verb, body, e.Code, e)
			}
		}
	}
	if e := ask(t, `{"outputSchema":{"a":[{"b":1},{"b":1e999}]},"prompt":"b"}`)["submit"]; e.Code != api.Unavailable {
		t.Errorf("a name in two objects: %+v", e)
	}
	for body, want := range map[string]string{
		`{"labels":{"a":7}}`: "labels: must be of type object of strings", `{"labels":[]}`: "labels: must be of type object of strings",
		`{"mode":7}`: "mode: must be of type string", `{"timeoutSec":"1"}`: "timeoutSec: must be of type integer",
		`{"confirm":1}`: "confirm: must be of type boolean", `{"env":[]}`: "env: must be of type object",
	} {
		if e := ask(t, body)["submit"]; e.Code != api.Validation || e.Field+": "+e.Message != want {
			t.Errorf("%s: %s: %s, want %s", body, e.Field, e.Message, want)
		}
	}
	if e := ask(t, `{"run":7}`)["status"]; e.Code != api.Validation || e.Field != "run" ||
		e.Message != "must be of type string" {
		t.Errorf("a run that is a number: %+v", e)
	}
	for body, want := range map[string]struct{ verb, field string }{
		`{"run":"T-1","maxOutputBytes":"a"}`:   {"results", "maxOutputBytes"}, // of an embedded struct
		`{"env":{"allow":[7]}}`:                {"submit", "env.allow"},
		`{"labels":{"secret":7},"prompt":"x"}`: {"submit", "labels"},
		`{"once":{"key":7}}`:                   {"submit", "once.key"},
		`{"states":["working",{"a":1}]}`:       {"list", "states"},
	} {
		if e := ask(t, body)[want.verb]; e.Code != api.Validation || e.Field != want.field ||
			!strings.HasPrefix(e.Message, "must be of type ") {
			t.Errorf("%s of %s: %+v, want a mistake of %s", want.verb, body, e, want.field)
		}
	}
}

// FuzzRequests: whatever the body is, the answer is an error of a known code
// that quotes nothing of it.
func FuzzRequests(f *testing.F) {
	for _, s := range []string{`{}`, `{"run":"T-1"}`, `{"prompt":"x","env":{"allow":["A"]}}`, `{"once":{"key":7}}`,
		`{"secretsecret":1}`, `{"run":["secretsecret"]}`, `{"labels":{"secretsecret":1}}`} {
		f.Add(s)
	}
	f.Fuzz(func(t *testing.T, body string) {
		for verb, e := range ask(t, body) {
			if e.Code != api.Validation && e.Code != api.Unavailable {
				t.Errorf("%s: %s", verb, e.Code)
			}
			if said := e.Error(); strings.Contains(body, "secretsecret") && strings.Contains(said, "secretsecret") {
				t.Errorf("%s quotes the request: %s", verb, said)
			}
		}
	})
}

// Requests and outcomes come back from JSON as they were: a client and a
// service of one version mean the same.
func TestRequestsComeBack(t *testing.T) {
	q := api.Submission{
		Task: runs.Task{Attributes: runs.Attributes{Mode: api.Preview,
			Labels: runs.LabelsOf(map[string]string{"a": "b"})}, Prompt: "x"}, Confirm: true, Once: api.Once{Key: "k"},
		Webhook: &api.Webhook{URL: "https://example.com", Context: json.RawMessage(`{"a":1}`)},
	}
	b, err := json.Marshal(q)
	if err != nil {
		t.Fatal(err)
	}
	var back api.Submission
	if err := json.Unmarshal(b, &back); err != nil {
		t.Fatal(err)
	}
	again, err := json.Marshal(back)
	if err != nil || string(again) != string(b) {
		t.Errorf("%s came back as %s (%v)", b, again, err)
	}
}

// A cleanup without ages has those of the tool; none can be smaller than its least.
func TestACleanupHasLeastAges(t *testing.T) {
	for body, want := range map[string]string{
		`{}`: "", `null`: "", `{"stuckSec":60,"oldHours":1}`: "", `{"stuckSec":59}`: "stuckSec",
		`{"oldHours":-1}`:                  "oldHours",
		`{"stuckSec":9223372036854775807}`: "stuckSec",
	} {
		if e := ask(t, body)["cleanup"]; e.Field != want || want == "" && e.Code != api.Unavailable {
			t.Errorf("%s: %v, want a mistake in %q", body, e, want)
		}
	}
}

// limited are streams that note whether a request to them has a deadline.
type limited struct {
	responder.Streams
	has chan bool
}

func (l limited) Peek(ctx context.Context, _ string) (runs.Header, error) {
	_, has := ctx.Deadline()
	l.has <- has
	return runs.Header{}, runs.ErrNoRun
}

// A verb ends some time after its caller has given up.
func TestVerbsEnd(t *testing.T) {
	streams := servicetest.New(t)
	l := limited{streams.Bus, make(chan bool, 1)}
	s := responder.New(responder.Config{Streams: l, Patience: fixture.Patience})
	servicetest.During(t, "responder", s.Run)
	for _, v := range natsapi.VerbEndpoints(s) {
		if v.Name != "status" {
			continue
		}
		if said := v.Do(context.Background(), []byte(`{"run":"T-1"}`)); said.Code == 0 {
			t.Errorf("%+v", said)
		}
		if !<-l.has {
			t.Error("it has no deadline")
		}
	}
}
