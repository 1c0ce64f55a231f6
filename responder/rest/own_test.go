package rest_test

import (
	"encoding/json"
	"net/url"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/linesman/linesman/api"
	"github.com/linesman/linesman/responder"
	"github.com/linesman/linesman/runs"
	"github.com/linesman/linesman/test/fixture"
	"github.com/linesman/linesman/test/fixture/servicetest"
)

// ids returns the runs of a list.
func (s *stage) ids(query string) (ids []string) {
	s.T.Helper()
	var page api.RunPage
	s.want(200, "GET", "/v1/runs?"+query, "").read(s.T, &page)
	for _, r := range page.Runs {
		ids = append(ids, r.ID)
	}
	return ids
}

// ended makes a run that ended a while ago.
func (s *stage) ended(id string, ago time.Duration, start runs.Start) {
	s.T.Helper()
	s.BeginAt("codex", id, time.Now().Add(-ago).UnixMilli(), start).Exit(1)
}

func TestListsAreFilteredByLabelsAndTimes(t *testing.T) {
	t.Parallel()
	s := newStage(t, nil)
	start := func(labels map[string]string) runs.Start {
		return runs.Start{Source: "run", Attributes: runs.Attributes{Title: "Fix it", Labels: runs.LabelsOf(labels)}}
	}
	s.ended("old", 48*time.Hour, start(map[string]string{"ticket": "42"}))
	s.ended("mid", 24*time.Hour, start(map[string]string{"ticket": "42", "who": "a b&c"}))
	s.ended("new", time.Hour, start(map[string]string{"ticket": "43"}))
	at := func(ago time.Duration) string { return url.QueryEscape(time.Now().Add(-ago).Format(time.RFC3339)) }
	for query, want := range map[string][]string{
		"":                                      {"new", "mid", "old"},
		"label=ticket%3D42":                     {"mid", "old"},
		"label=ticket%3D42&label=who%3Da+b%26c": {"mid"},
		"label=ticket%3D4":                      nil,
		"since=" + at(25*time.Hour):             {"new", "mid"},
		"until=" + at(25*time.Hour):             {"old"},
		"since=" + at(30*time.Hour) + "&until=" + at(2*time.Hour): {"mid"},
	} {
		if got := s.ids(query); !slices.Equal(got, want) {
			t.Errorf("%s: %q, want %q", query, got, want)
		}
	}
	for _, wrong := range []string{"label=x", "label=", "since=yesterday", "until=1960-01-01T00:00:00Z", "unseen=1",
		"since=", strings.Repeat("label=a%3Db&", 17)} {
		s.want(400, "GET", "/v1/runs?"+strings.TrimSuffix(wrong, "&"), "")
	}
	var page api.RunPage
	s.want(200, "GET", "/v1/runs?limit=1&label=ticket%3D42", "").read(t, &page)
	if got := s.ids("limit=1&label=ticket%3D42&cursor=" + page.Next); !slices.Equal(got, []string{"old"}) {
		t.Errorf("the second page has %q", got)
	}
	s.want(400, "GET", "/v1/runs?limit=1&label=ticket%3D43&cursor="+page.Next, "")
	if r := page.Runs[0]; r.ID != "mid" || r.Title != "Fix it" || r.Labels.Value("who") != "a b&c" ||
		r.Times != "written" {
		t.Errorf("the row is %+v", r)
	}
}

func TestAnEndedRunIsUnseenUntilItsOwnerOpensIt(t *testing.T) {
	t.Parallel()
	s := newStage(t, nil)
	s.ended("fresh", time.Hour, runs.Start{Source: "run"})
	s.ended("other", 2*time.Hour, runs.Start{Source: "tail"})
	s.ended("stale", 8*24*time.Hour, runs.Start{Source: "run"})
	s.BeginAt("codex", "ended", time.Now().UnixMilli(), runs.Start{Source: "run"}).
		Append(runs.Entry{Kind: runs.Cancelled, Body: runs.Encode(runs.Remark{})}).
		End(runs.Exit{Reason: runs.ReasonCancelled})
	s.Await("fresh", func(v runs.Header) bool { return v.Unseen })
	second := responder.New(responder.Config{Streams: s.Bus, Queue: "default", LostAfter: time.Minute,
		Patience: fixture.Patience})
	stop := servicetest.During(t, "second responder", second.Run)
	if err := second.Ready(t.Context()); err != nil {
		t.Fatal(err)
	}
	if got := s.ids("unseen=true"); !slices.Equal(got, []string{"fresh", "other"}) {
		t.Errorf("unseen are %q", got)
	}
	for range 2 {
		var done api.Seen
		s.want(200, "PUT", "/v1/runs/fresh/seen", "").read(t, &done)
		if done.Run != "fresh" || done.Unseen {
			t.Errorf("answer %+v", done)
		}
		if got := s.ids("unseen=true"); !slices.Equal(got, []string{"other"}) {
			t.Errorf("unseen are %q", got)
		}
	}
	other := &servicetest.Streams{T: t, Service: second}
	other.Await("fresh", func(v runs.Header) bool { return !v.Unseen })
	other.Await("other", func(v runs.Header) bool { return v.Unseen })
	stop()
	third := responder.New(responder.Config{Streams: s.Bus, Queue: "default", LostAfter: time.Minute,
		Patience: fixture.Patience})
	servicetest.During(t, "third responder", third.Run)
	again := &servicetest.Streams{T: t, Service: third}
	again.Await("other", func(v runs.Header) bool { return v.Unseen })
	again.Await("fresh", func(v runs.Header) bool { return !v.Unseen })

	// What is forgotten leaves no mark.
	if _, err := s.Operator.Forget(t.Context(), "fresh"); err != nil {
		t.Fatal(err)
	}
	stream, err := s.Operator.Stream(t.Context(), "KV_"+s.Operator.Seen())
	if err != nil || stream.CachedInfo().State.Msgs != 0 {
		t.Errorf("marks are left: %v", err)
	}
}

func TestMarksThatCannotBeStoredAreErrors(t *testing.T) {
	t.Parallel()
	s := newStage(t, nil)
	s.ended("fresh", time.Hour, runs.Start{Source: "run"})
	s.Await("fresh", func(v runs.Header) bool { return v.Unseen })
	if err := s.Operator.JetStream().DeleteStream(t.Context(), "KV_"+s.Operator.Seen()); err != nil {
		t.Fatal(err)
	}
	if r := s.ask("PUT", "/v1/runs/fresh/seen", ""); r.status < 500 {
		t.Errorf("status %d: %s", r.status, r.body)
	}
	if got := s.ids(""); !slices.Equal(got, []string{"fresh"}) {
		t.Errorf("lists %q", got)
	}
}

func TestReferencesNameOneRun(t *testing.T) {
	t.Parallel()
	s := newStage(t, nil)
	for i, id := range []string{"T-local-abcd111", "T-local-abcd222", "T-cloud-zzzz333", "abc", "T-local-abcd"} {
		s.ended(id, time.Duration(9-i)*time.Hour, runs.Start{
			Source: "run", Attributes: runs.Attributes{Title: "Run " + id,
				Labels: runs.LabelsOf(map[string]string{"ticket": string(id[len(id)-1])})},
		})
	}
	for ref, want := range map[string]string{
		"T-local-abcd111": "T-local-abcd111", "abcd1": "T-local-abcd111", "T-local-abcd2": "T-local-abcd222",
		"222": "T-local-abcd222", "zzz": "T-cloud-zzzz333", "abc": "abc", "abcd": "T-local-abcd",
		"last": "T-local-abcd", "ticket=1": "T-local-abcd111",
	} {
		if got, err := s.Service.Resolve(t.Context(), ref); err != nil || got != want {
			t.Errorf("%s: %s, %v, want %s", ref, got, err, want)
		}
	}
	for ref, want := range map[string]api.Code{
		"": api.Validation, "zz": api.Validation, "=": api.Validation, "T-l": api.Conflict, "nothing": api.NotFound,
		"ticket=9": api.NotFound, "no id!": api.NotFound, strings.Repeat("x", 600): api.Validation,
	} {
		if got, err := s.Service.Resolve(t.Context(), ref); !api.Is(err, want) {
			t.Errorf("%q: %s, %v, want %s", ref, got, err, want)
		}
	}
	_, err := s.Service.Resolve(t.Context(), "T-")
	if !api.Is(err, api.Validation) {
		t.Errorf("two characters: %v", err)
	}
	_, err = s.Service.Resolve(t.Context(), "T-local-abcd")
	if err != nil {
		t.Errorf("an id: %v", err)
	}
	_, err = s.Service.Resolve(t.Context(), "T-lo")
	b, _ := json.Marshal(api.Known(err).Issues)
	if want := `[{"field":"T-local-abcd","problem":"failed Run T-local-abcd"},` +
		`{"field":"T-local-abcd222","problem":"failed Run T-local-abcd222"},` +
		`{"field":"T-local-abcd111","problem":"failed Run T-local-abcd111"}]`; string(b) != want {
		t.Errorf("candidates %s\nwant %s", b, want)
	}
}

func TestTitlesAndLabelsComeWithSubmissions(t *testing.T) {
	t.Parallel()
	s := newStage(t, nil)
	submit := func(body string) (r api.Run) {
		s.want(202, "POST", "/v1/runs", body).read(t, &r)
		return r
	}
	secret := "sk-" + strings.Repeat("aB3", 12)
	for body, want := range map[string]string{
		`{"task":"\n  Fix the test.\nThen stop."}`:    "Fix the test.",
		`{"task":"Fix it","title":"Ticket 42"}`:       "Ticket 42",
		`{"task":"` + strings.Repeat("é", 200) + `"}`: strings.Repeat("é", 119) + "…",
	} {
		r := submit(body)
		if r.Title != want {
			t.Errorf("%s: title %q, want %q", body, r.Title, want)
		}
		s.Await(r.ID, func(v runs.Header) bool { return v.Seq > 0 && v.Title == want })
	}
	if r := submit(`{"task":"Use ` + secret + `"}`); strings.Contains(r.Title, secret) {
		t.Errorf("the title has the secret: %s", r.Title)
	}
	r := submit(`{"task":"Fix it","model":"m-1","labels":{"ticket":"42"}}`)
	if r.Labels.Value("ticket") != "42" || r.Model != "m-1" {
		t.Errorf("run %+v", r)
	}
	if got := s.ids("label=ticket%3D42"); !slices.Equal(got, []string{r.ID}) {
		t.Errorf("labelled are %q", got)
	}
	for _, wrong := range []string{
		`"title":"a\nb"`, `"title":" "`, `"title":7`, `"title":"` + strings.Repeat("x", 121) + `"`, `"labels":{"a":1}`,
		`"labels":{"linesman.x":"1"}`, `"labels":{"a":null}`, `"labels":[]`, `"labels":{"":"x"}`,
	} {
		s.want(400, "POST", "/v1/runs", `{"task":"x",`+wrong+`}`)
	}
}
