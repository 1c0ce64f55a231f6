package a2a_test

import (
	"encoding/json"
	"net/http"
	"testing"

	sdk03 "github.com/a2aproject/a2a-go/a2a"
	sdk "github.com/a2aproject/a2a-go/v2/a2a"
	"github.com/a2aproject/a2a-go/v2/a2aclient/agentcard"
	"github.com/a2aproject/a2a-go/v2/a2acompat/a2av0"
	a2apb "github.com/a2aproject/a2a-go/v2/a2apb/v1"
	"google.golang.org/protobuf/encoding/protojson"

	"github.com/linesman/linesman/agent/known"
)

// only03 are the fields of the card that are none of 1.0.
func only03(card map[string]any) []map[string]any {
	bearer := card["securitySchemes"].(map[string]any)["bearer"].(map[string]any)
	found := []map[string]any{{}, {}}
	for i, in := range []map[string]any{card, bearer} {
		for _, name := range []string{"protocolVersion", "url", "preferredTransport", "security", "type", "scheme"} {
			if value, ok := in[name]; ok {
				found[i][name] = value
				delete(in, name)
			}
		}
	}
	return found
}

// Clients read the card by the proto of A2A, too, and that may refuse any field
// that it does not have: those of 0.3, and no other.
func TestCardIsProtoJSON(t *testing.T) {
	t.Parallel()
	d := newLab(t).endpoint(nil)
	_, got := d.ask("GET", "/.well-known/agent-card.json", "")
	both := got.Value().(map[string]any)
	if beside := only03(both); len(beside[0]) != 4 || len(beside[1]) != 2 {
		t.Errorf("of 0.3 are %v", beside)
	}
	body, err := json.Marshal(both)
	if err != nil {
		t.Fatal(err)
	}
	for with, unmarshal := range map[string]protojson.UnmarshalOptions{got.Raw: {DiscardUnknown: true}, string(body): {}} {
		var card a2apb.AgentCard
		if err := unmarshal.Unmarshal([]byte(with), &card); err != nil {
			t.Fatal(err)
		}
		scheme := card.GetSecuritySchemes()["bearer"].GetHttpAuthSecurityScheme().GetScheme()
		needs := card.GetSecurityRequirements()
		if scheme != "Bearer" || len(needs) != 1 || needs[0].GetSchemes()["bearer"] == nil ||
			len(card.GetSupportedInterfaces()) != 3 || len(card.GetSkills()) != len(known.Agents)+5 {
			t.Errorf("as a client reads it: %v", &card)
		}
	}

	// Those that read 1.0, and 0.3 from a card of 1.0, need none of them.
	for name, parse := range map[string]agentcard.Parser{"0.3": a2av0.NewAgentCardParser(),
		"1.0": func(b []byte) (*sdk.AgentCard, error) {
			var card sdk.AgentCard
			return &card, json.Unmarshal(b, &card)
		}} {
		card, err := parse(body)
		if err != nil || len(card.SupportedInterfaces) != 3 || card.SecuritySchemes["bearer"] == nil {
			t.Errorf("%s: %+v, %v", name, card, err)
		}
	}
}

// It is for them that the card has fields that are none of 1.0.
func TestClientsOf03ReadTheCardByTheFieldsBesideIt(t *testing.T) {
	t.Parallel()
	d := newLab(t).endpoint(nil)
	_, got := d.ask("GET", "/.well-known/agent-card.json", "")
	var card sdk03.AgentCard
	if err := json.Unmarshal([]byte(got.Raw), &card); err != nil {
		t.Fatal(err)
	}
	if card.URL != d.url+"/a2a" || card.PreferredTransport != sdk03.TransportProtocolJSONRPC ||
		card.ProtocolVersion != "0.3.0" || len(card.Security) != 1 {
		t.Errorf("as a client of 0.3 reads it: %+v", card)
	}
	both := got.Value().(map[string]any)
	only03(both)
	body, err := json.Marshal(both)
	if err != nil {
		t.Fatal(err)
	}
	card = sdk03.AgentCard{}
	if err := json.Unmarshal(body, &card); err == nil && card.URL != "" {
		t.Error("a client of 0.3 does not need them")
	}
}

func TestCardIsKeptAndAskedForAgain(t *testing.T) {
	t.Parallel()
	d := newLab(t).endpoint(nil)
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
	if first.StatusCode != 200 || tag == "" || first.Header.Get("Cache-Control") != "max-age=300" ||
		first.Header.Get("Content-Type") != "application/json" {
		t.Errorf("%d %v", first.StatusCode, first.Header)
	}
	for header, want := range map[string]int{tag: 304, "W/" + tag: 304, `"other", ` + tag: 304, `"other"`: 200} {
		if got := get("If-None-Match", header); got.StatusCode != want || got.Header.Get("ETag") != tag {
			t.Errorf("If-None-Match %s: %d, want %d", header, got.StatusCode, want)
		}
	}
}
