package a2a_test

import (
	"net/http"
	"testing"

	a2apb "github.com/a2aproject/a2a-go/v2/a2apb/v1"
	"google.golang.org/protobuf/encoding/protojson"
)

// Clients read the card by the proto of A2A, too. What those of 0.3 look for
// is no field of it.
func TestCardIsProtoJSON(t *testing.T) {
	t.Parallel()
	d := newLab(t).desk(nil)
	_, got := d.ask("GET", "/.well-known/agent-card.json", "")
	var card a2apb.AgentCard
	if err := (protojson.UnmarshalOptions{DiscardUnknown: true}).Unmarshal([]byte(got.Raw), &card); err != nil {
		t.Fatal(err)
	}
	scheme := card.GetSecuritySchemes()["bearer"].GetHttpAuthSecurityScheme().GetScheme()
	needs := card.GetSecurityRequirements()
	if scheme != "Bearer" || len(needs) != 1 || needs[0].GetSchemes()["bearer"] == nil || len(card.GetSupportedInterfaces()) != 3 || len(card.GetSkills()) != 5 {
		t.Errorf("as a client reads it: %v", &card)
	}
}

func TestCardIsKeptAndAskedForAgain(t *testing.T) {
	t.Parallel()
	d := newLab(t).desk(nil)
	get := func(header ...string) *http.Response {
		r, err := http.NewRequestWithContext(t.Context(), "GET", d.url+"/.well-known/agent-card.json", nil)
		if err != nil {
			t.Fatal(err)
		}
		r.Close = true
		for i := 0; i < len(header); i += 2 {
			r.Header.Set(header[i], header[i+1])
		}
		answer, err := http.DefaultClient.Do(r)
		if err != nil {
			t.Fatal(err)
		}
		answer.Body.Close()
		return answer
	}
	first := get()
	tag := first.Header.Get("ETag")
	if first.StatusCode != 200 || tag == "" || first.Header.Get("Cache-Control") != "max-age=300" || first.Header.Get("Content-Type") != "application/json" {
		t.Errorf("%d %v", first.StatusCode, first.Header)
	}
	for header, want := range map[string]int{tag: 304, "W/" + tag: 304, `"other", ` + tag: 304, `"other"`: 200} {
		if got := get("If-None-Match", header); got.StatusCode != want || got.Header.Get("ETag") != tag {
			t.Errorf("If-None-Match %s: %d, want %d", header, got.StatusCode, want)
		}
	}
}
