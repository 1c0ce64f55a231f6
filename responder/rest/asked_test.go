package rest_test

import (
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/nats-io/nats.go"
	"github.com/tidwall/gjson"

	"github.com/linesman/linesman/bus"
	"github.com/linesman/linesman/bus/bucket"
	"github.com/linesman/linesman/responder/httpserver"
	"github.com/linesman/linesman/responder/rest"
	"github.com/linesman/linesman/runs"
	"github.com/linesman/linesman/test/fixture/servicetest"
)

// The envelope of a run that asks people has the question, for those who may answer it, and then another ETag.
func TestEnvelopeHasTheQuestionForThoseWhoMayAnswer(t *testing.T) {
	t.Parallel()
	s := newStage(t, nil)
	l := s.BeginLive("codex", "asks", runs.Start{Source: "queue", Worker: "w1"})
	l.Permission("make sentinel", servicetest.Hour())
	l.Asks("q1")
	tags := map[string]bool{} // of those who may, and of the others
	for scopes, may := range map[string]bool{
		"read": false, "read,submit": false, "read,raw": false, "read,answer": true, "read,submit,raw,answer": true,
	} {
		all, err := httpserver.ParseScopes(scopes)
		if err != nil {
			t.Fatal(err)
		}
		bearer, err := httpserver.CreateToken(filepath.Join(s.Dir, "tokens.json"), strings.ReplaceAll(scopes, ",", "-"), all,
			time.Now())
		if err != nil {
			t.Fatal(err)
		}
		for _, path := range []string{"/v1/runs/asks", "/v1/runs/asks/wait?timeout=0"} {
			r := s.want(200, "GET", path, "", "Authorization", "Bearer "+bearer, "Accept", "application/adcp+json")
			got := gjson.ParseBytes(r.body)
			if got.Get("status").String() != "input-required" || got.Get("message").String() != "Waits for a permission" ||
				got.Get("questions").Raw != `["q1"]` || got.Get("question").Exists() != may || may &&
				got.Get("question.command").String() != "make sentinel" {
				t.Errorf("%s by %s: %s", path, scopes, r.body)
			}
			if tag := r.header.Get("ETag"); tag != "" {
				if of, known := tags[tag]; known && of != may {
					t.Errorf("%s by %s: the ETag of others", path, scopes)
				}
				tags[tag] = may
			}
			plain := s.want(200, "GET", path, "", "Authorization", "Bearer "+bearer)
			if gjson.GetBytes(plain.body, "question").Exists() {
				t.Errorf("%s by %s as JSON: %s", path, scopes, plain.body)
			}
		}
	}
	if len(tags) != 2 {
		t.Errorf("%d ETags", len(tags))
	}
}

// A record that cannot be read hides the questions of its run alone, and the list tells which run that is.
func TestADamagedRecordHidesNoOtherQuestion(t *testing.T) {
	t.Parallel()
	s := newStage(t, nil)
	records := bucket.New(s.Operator.JetStream(), s.Operator.Runs())
	for _, id := range []string{"asks-1", "other", "broken", "dead", "asks-2"} {
		l := s.BeginLive("codex", id, runs.Start{Source: "queue", Worker: "w1"})
		l.Permission("make", servicetest.Hour())
		l.Asks("q1")
		damage := map[string]string{
			"broken": `{"record":{"id":`, "other": `{"record":{"id":"asks-1"}}`,
			"dead": `{"record":{"id":"dead","agent":"codex","state":"input-required"}}`,
		}[id]
		if damage == "" {
			continue
		}
		e, err := records.Get(t.Context(), id)
		if err != nil {
			t.Fatal(err)
		}
		header := nats.Header{bus.HeaderRun: e.Header[bus.HeaderRun]}
		if _, err := records.Put(t.Context(), id, []byte(damage), header); err != nil {
			t.Fatal(err)
		}
	}
	list := gjson.ParseBytes(s.want(200, "GET", "/v1/questions", "").body)
	if got := list.Get("requests.#.run").Raw; got != `["asks-1","asks-2"]` {
		t.Errorf("listed: %s", got)
	}
	if got := list.Get("unread").Raw; got != `["broken","dead","other"]` {
		t.Errorf("not read: %s", got)
	}
	if got := s.want(200, "GET", "/v1/questions?run=asks-1", "").body; gjson.GetBytes(got, "unread").Exists() ||
		gjson.GetBytes(got, "requests.#").Int() != 1 {
		t.Errorf("of one run: %s", got)
	}
	if got := s.want(200, "GET", "/v1/questions?run=broken", "").body; gjson.GetBytes(got, "unread").Raw != `["broken"]` {
		t.Errorf("of a damaged one: %s", got)
	}
}

// A run that is there has no such question: the error does not say that there is no such run.
func TestAQuestionThatWasNeverAskedIsNotFound(t *testing.T) {
	t.Parallel()
	s := newStage(t, nil)
	l := s.BeginLive("codex", "asks", runs.Start{Source: "queue", Worker: "w1"})
	l.Asks(l.Permission("make", servicetest.Hour()))
	var p rest.Problem
	s.want(404, "POST", "/v1/runs/asks/questions/q9/answer", `{"option":"allow"}`).read(t, &p)
	if p.Code != "NOT_FOUND" || p.Run != "asks" || p.Detail != "the run has no question q9" {
		t.Errorf("%+v", p)
	}
	s.want(404, "POST", "/v1/runs/none/questions/q1/answer", `{"option":"allow"}`).read(t, &p)
	if p.Detail != "there is no run of this id" {
		t.Errorf("%+v", p)
	}
}

// The same answer by another person, in other words or other white space, is no error, and tells who decided.
func TestTheSameAnswerByAnotherIsNone(t *testing.T) {
	t.Parallel()
	s := newStage(t, nil)
	l := s.BeginLive("codex", "asks", runs.Start{Source: "queue", Worker: "w1"})
	bearers := map[string]string{}
	for _, name := range []string{"ann", "bob"} {
		all, err := httpserver.ParseScopes("read,answer")
		if err != nil {
			t.Fatal(err)
		}
		bearers[name], err = httpserver.CreateToken(filepath.Join(s.Dir, "tokens.json"), name, all, time.Now())
		if err != nil {
			t.Fatal(err)
		}
	}
	for _, test := range []struct{ first, same, other string }{
		{`{"option":"yes"}`, `{"option":"allow"}`, `{"option":"deny"}`},
		{`{"option":"allow"}`, `{"option":"yes"}`, `{"option":"no"}`},
		{`{"option":"no"}`, `{"option":"deny"}`, `{"option":"allow"}`},
		{`{"option":"deny"}`, `{"option":"no"}`, `{"option":"yes"}`},
		{`{"content":{"name":"a"}}`, `{"content": {"name": "a"}}`, `{"content":{"name":"b"}}`},
		{`{"option":"decline"}`, `{"option":"deny"}`, `{"option":"cancel"}`},
		{`{"option":"cancel"}`, `{"option":"cancel"}`, `{"option":"decline"}`},
	} {
		id := ""
		if strings.Contains(test.other, "c") { // content, cancel, decline
			id = l.Form("What?")
		} else {
			id = l.Permission("make", servicetest.Hour())
		}
		l.Asks(id)
		path := "/v1/runs/asks/questions/" + id + "/answer"
		s.want(200, "POST", path, test.first, "Authorization", "Bearer "+bearers["ann"])
		r := s.want(200, "POST", path, test.same, "Authorization", "Bearer "+bearers["bob"])
		if gjson.GetBytes(r.body, "by").String() != "ann" {
			t.Errorf("%s after %s: %s", test.same, test.first, r.body)
		}
		s.want(409, "POST", path, test.other, "Authorization", "Bearer "+bearers["bob"])
		l.Asks()
	}
}
