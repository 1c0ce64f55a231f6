package a2a

import (
	"bytes"
	"crypto/sha256"
	"encoding/hex"
	"encoding/json"
	"net/http"
	"strconv"
	"time"

	sdk "github.com/a2aproject/a2a-go/v2/a2a"
	"github.com/a2aproject/a2a-go/v2/a2acompat/a2av0"
)

// cardFresh is how long a client may cache the card.
const cardFresh = 5 * time.Minute

// card returns the public agent card for an address.
func (h *Handler) card(url string) *sdk.AgentCard {
	return &sdk.AgentCard{
		Name: "linesman",
		Description: "Runs Codex on the machine of its owner: a message is a task, whose text is the prompt. " +
			"Options go in one data part: mode, workingDir, model, timeoutSec and the other arguments of _codex_local_exec.",
		Version: h.Version,
		SupportedInterfaces: []*sdk.AgentInterface{
			{URL: url + pathRPC, ProtocolBinding: sdk.TransportProtocolJSONRPC, ProtocolVersion: sdk.Version},
			{URL: url + pathREST, ProtocolBinding: sdk.TransportProtocolHTTPJSON, ProtocolVersion: sdk.Version},
			{URL: url + pathRPC, ProtocolBinding: sdk.TransportProtocolJSONRPC, ProtocolVersion: a2av0.Version},
		},
		Capabilities: sdk.AgentCapabilities{
			Streaming: true, PushNotifications: h.Push != nil,
			Extensions: []sdk.AgentExtension{{URI: ProfileURI,
				Description: "AdCP structured task invocation, where a request asks for it"}},
		},
		DefaultInputModes:  []string{"text/plain", "application/json"},
		DefaultOutputModes: modes,
		Skills:             skills(),
	}
}

// bothCard is a card for clients of 1.0 and of 0.3: it has the fields of 0.3 as
// well. Clients of 1.0 ignore them. The union of a2a-go is refused by its own
// clients of 1.0.
type bothCard struct {
	*sdk.AgentCard
	SecuritySchemes map[string]bothScheme `json:"securitySchemes"`

	// In ProtoJSON the scopes of a scheme are {"list":[]}, and a2a-go refuses a
	// card with that under the JSON name. Under the proto name all ProtoJSON
	// parsers accept it, and others ignore it.
	Requirements []requirement `json:"security_requirements"`

	ProtocolVersion    string                  `json:"protocolVersion"`
	URL                string                  `json:"url"`
	PreferredTransport sdk.TransportProtocol   `json:"preferredTransport"`
	Security           []map[string][]struct{} `json:"security"`
}

type bothScheme struct {
	Type   string                     `json:"type"`
	Scheme string                     `json:"scheme"`
	HTTP   sdk.HTTPAuthSecurityScheme `json:"httpAuthSecurityScheme"`
}

type requirement struct {
	Schemes map[string]scopes `json:"schemes"`
}

type scopes struct {
	List []string `json:"list"`
}

func (h *Handler) serveCard(w http.ResponseWriter, r *http.Request) {
	url, head := h.URL, w.Header()
	if url == "" { // a forged host affects only the answer to its own sender
		scheme := "http"
		if r.Header.Get("X-Forwarded-Proto") == "https" {
			scheme = "https"
		}
		url = scheme + "://" + r.Host
		head.Set("Vary", "Host, X-Forwarded-Proto")
	}
	bearer := sdk.HTTPAuthSecurityScheme{Scheme: "Bearer",
		Description: "A token of linesman, as linesman token makes them"}
	card := bothCard{
		AgentCard: h.card(url), SecuritySchemes: map[string]bothScheme{"bearer": {"http", "bearer", bearer}},
		Requirements:    []requirement{{map[string]scopes{"bearer": {[]string{}}}}},
		ProtocolVersion: "0.3.0", URL: url + pathRPC, PreferredTransport: sdk.TransportProtocolJSONRPC,
		Security: []map[string][]struct{}{{"bearer": {}}},
	}
	body, err := json.MarshalIndent(card, "", "  ")
	if err != nil { // plain values always encode
		panic(err)
	}
	sum := sha256.Sum256(body)
	head.Set("Content-Type", "application/json")
	head.Set("ETag", `"`+hex.EncodeToString(sum[:12])+`"`)
	head.Set("Cache-Control", "max-age="+strconv.Itoa(int(cardFresh.Seconds())))
	http.ServeContent(w, r, "", time.Time{}, bytes.NewReader(body))
}

func skills() []sdk.AgentSkill {
	text, data := []string{"text/plain", "application/json"}, []string{"application/json"}
	return []sdk.AgentSkill{
		{
			ID: "codex-run", Name: "Run a Codex task", Tags: []string{"codex", "coding"}, InputModes: text, OutputModes: text,
			Description: "Runs a coding task with codex. What the agent says comes as it says it, and its last word is " +
				"the result.",
			Examples: []string{"Explain what this package does."},
		},
		{
			ID: "codex-resume", Name: "Go on with a Codex thread", Tags: []string{"codex", "coding"}, InputModes: text,
			OutputModes: text,
			Description: "Goes on where an earlier task ended: send the message with the contextId of that task.",
			Examples:    []string{"Now fix the test that fails."},
		},
		{
			ID: "codex-status", Name: "Status of Codex tasks", Tags: []string{"codex", "status"}, InputModes: data,
			OutputModes: data,
			Description: "Says how tasks stand. It is what GetTask and ListTasks do; under the AdCP profile it is a " +
				"skill to call.",
		},
		{
			ID: "codex-cancel", Name: "Cancel a Codex task", Tags: []string{"codex"}, InputModes: data, OutputModes: data,
			Description: "Ends a task. It is what CancelTask does; under the AdCP profile it is a skill to call.",
		},
		{
			ID: "get_task_status", Name: "Get AdCP task status", Tags: []string{"adcp"}, InputModes: data, OutputModes: data,
			Description: "How an AdCP task stands: for requests that ask for the AdCP profile.",
		},
	}
}
