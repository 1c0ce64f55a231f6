package rest

import (
	"encoding/json"
	"net/http"
	"net/http/httptest"
	"slices"
	"testing"
	"time"

	"github.com/linesman/linesman/api"
	"github.com/linesman/linesman/responder/request"
	"github.com/linesman/linesman/runs"
)

// A client is told when to repeat a request: also one that its key's first request keeps waiting.
func TestTheDelayOfAnErrorIsInItsHeader(t *testing.T) {
	for _, c := range []struct {
		err  api.Error
		want string
	}{
		{api.Error{Code: api.KeyInFlight, RetryAfter: 4100 * time.Millisecond}, "5"},
		{api.Error{Code: api.RateLimited, RetryAfter: time.Hour}, "3600"},
		{api.Error{Code: api.Unavailable}, "2"},
		{api.Error{Code: api.Conflict}, ""},
	} {
		w := httptest.NewRecorder()
		p := problemOf(&c.err)
		q := exchange{API: New(Config{}), w: w, r: httptest.NewRequest("POST", "/v1/runs", nil)}
		q.write(&reply{Status: p.Status, Problem: p})
		if got := w.Header().Get("Retry-After"); got != c.want {
			t.Errorf("%s: Retry-After %q, want %q", c.err.Code, got, c.want)
		}
	}
}

// Every error of the service has a status and a code that the document has.
func TestEveryErrorHasAStatusAndACode(t *testing.T) {
	var doc struct {
		Components struct {
			Schemas struct {
				Problem struct {
					Properties struct {
						Code struct{ Enum []string }
					}
				}
			}
		}
	}
	if err := json.Unmarshal(Document, &doc); err != nil {
		t.Fatal(err)
	}
	documented := doc.Components.Schemas.Problem.Properties.Code.Enum
	for _, code := range api.Codes {
		p := problemOf(&api.Error{Code: code, Message: "why"})
		if http.StatusText(p.Status) == "" || p.Status < 400 || !slices.Contains(documented, p.Code) || p.Detail == "" {
			t.Errorf("%s: %+v", code, p)
		}
	}
	if len(kinds) != len(api.Codes) {
		t.Errorf("%d errors are mapped, there are %d", len(kinds), len(api.Codes))
	}
}

func TestErrorsOfTheServiceAsProblems(t *testing.T) {
	issues := []api.Issue{{Field: request.Whole, Problem: "must be UTF-8"}, {Field: "workDir", Problem: "is no parameter",
		Meant: "workingDir"}}
	for _, c := range []struct {
		err  api.Error
		want string
	}{
		{
			api.Error{Code: api.Validation, Field: request.Whole, Message: "must be UTF-8", Issues: issues},
			`{"status":400,"detail":"body: must be UTF-8 (and one more mistake)","code":"VALIDATION","field":"body","issues":[` +
				`{"field":"body","problem":"must be UTF-8"},{"field":"workDir","problem":"is no parameter","didYouMean":"workingDir"}]}`,
		},
		{
			api.Error{Code: api.Validation, Field: "task", Message: "is required", Issues: issues[1:], Unlisted: 7},
			`{"status":400,"detail":"task: is required (and 7 more mistakes)","code":"VALIDATION","field":"task","issues":[` +
				`{"field":"workDir","problem":"is no parameter","didYouMean":"workingDir"}]}`,
		},
		{
			api.Error{Code: api.Validation, Field: "contextId", Message: "the task belongs to another thread"},
			`{"status":400,"detail":"contextId: the task belongs to another thread","code":"VALIDATION","field":"contextId","issues":[` +
				`{"field":"contextId","problem":"the task belongs to another thread"}]}`,
		},
		{
			api.Error{Code: api.Ended, Field: "task_id", Message: "the task has ended", Run: "T-1", State: runs.StateFailed},
			`{"status":409,"detail":"the run has ended: it is failed","code":"CONFLICT","run":"T-1","state":"failed"}`,
		},
		{
			api.Error{Code: api.NotFound, Message: "there is no task of this id", Run: "T-1"},
			`{"status":404,"detail":"there is no run of this id","code":"NOT_FOUND","run":"T-1"}`,
		},
		{
			api.Error{Code: api.KeyInFlight, Field: "idempotency_key", Message: "the same request is being carried out",
				Retryable: true},
			`{"status":409,"detail":"idempotency_key: the same request is being carried out","code":"CONFLICT","field":"idempotency_key","retryable":true}`,
		},
		{
			api.Error{Code: api.Internal, Message: "cannot cancel: the log of the responder has the cause"},
			`{"status":500,"detail":"internal error; see linesman's log","code":"INTERNAL"}`,
		},
	} {
		got, err := json.Marshal(problemOf(&c.err))
		if err != nil {
			t.Fatal(err)
		}
		if want := `{"type":"","title":"",` + c.want[1:]; string(got) != want {
			t.Errorf("%s:\n%s, want\n%s", c.err.Code, got, want)
		}
	}
}
