package webhook_test

import (
	"errors"
	"io"
	"net/http"
	"net/http/httptest"
	"strings"
	"testing"
	"time"

	"github.com/linesman/linesman/internal/delivery"
	"github.com/linesman/linesman/responder/webhook"
)

func TestReceiverIsPostedTo(t *testing.T) {
	t.Parallel()
	const secret = "0123456789-0123456789-0123456789"
	status := http.StatusOK
	server := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		body, err := io.ReadAll(r.Body)
		signed := strings.HasPrefix(r.Header.Get("X-ADCP-Signature"), "sha256=")
		if err != nil || string(body) != "{}" || r.Header.Get("Content-Type") != "application/json" ||
			signed != (r.URL.Path == "/signed") {
			t.Errorf("%s: %q with %v, %v", r.URL.Path, body, r.Header, err)
		}
		w.Header().Set("Retry-After", "7")
		w.Header().Set("Location", "/elsewhere")
		w.WriteHeader(status)
	}))
	defer server.Close()
	accepted := delivery.Refusal{}
	post := func(url, secret string) delivery.Refusal {
		t.Helper()
		r, err := webhook.NewReceiver(url, secret, true)
		if err != nil {
			t.Fatal(err)
		}
		refused, ok := errors.AsType[*delivery.Refusal](r.Post(t.Context(), "application/json", []byte("{}")))
		if !ok {
			return accepted
		}
		return *refused
	}
	for s, want := range map[int]delivery.Refusal{
		200: accepted,
		204: accepted,
		302: {Final: true, Why: "status 302"},
		404: {Final: true, Why: "status 404"},
		409: {Final: true, Why: "status 409"},
		429: {After: 7 * time.Second, Why: "status 429"},
		500: {Why: "status 500"},
		503: {After: 7 * time.Second, Why: "status 503"},
	} {
		status = s
		for url, secret := range map[string]string{server.URL + "/": "", server.URL + "/signed": secret} {
			if got := post(url, secret); got != want {
				t.Errorf("%d: %+v, want %+v", s, got, want)
			}
		}
	}
	server.Close()
	if got := post(server.URL, ""); got == accepted || got.Final || got.Why != "no answer" {
		t.Errorf("without a receiver: %+v", got)
	}
	if _, err := webhook.NewReceiver("http://169.254.169.254/", "", true); err == nil {
		t.Error("the metadata of a cloud can be called")
	}
	for _, bad := range [][2]string{{server.URL, ""}, {"https://127.0.0.1/", ""}, {"https://example.com/", "short"}} {
		if _, err := webhook.NewReceiver(bad[0], bad[1], false); err == nil || strings.Contains(err.Error(), bad[0]) ||
			bad[1] != "" && strings.Contains(err.Error(), bad[1]) {
			t.Errorf("%q: %v", bad, err)
		}
	}
}
