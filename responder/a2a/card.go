package a2a

import (
	"bytes"
	"crypto/sha256"
	"encoding/hex"
	"encoding/json"
	"net/http"
	"strconv"
	"strings"
	"time"

	sdk "github.com/a2aproject/a2a-go/v2/a2a"
	"github.com/a2aproject/a2a-go/v2/a2acompat/a2av0"

	"github.com/linesman/linesman/api"
	"github.com/linesman/linesman/responder/request"
	"github.com/linesman/linesman/responder/tools"
)

// cardFresh is how long a client may cache the card.
const cardFresh = 5 * time.Minute

// card returns the public agent card for an address.
func (h *handler) card(url string) *sdk.AgentCard {
	return &sdk.AgentCard{
		Name: "linesman",
		Description: "Runs coding agents on the machine of its owner: " + h.agentNames() + ". A message is a task: its " +
			"text is the prompt. Options go in one data part: agent (" + strings.Join(h.Service.Agents().Names(), ", ") +
			"; default: " + api.DefaultAgent + "), mode, workingDir, model, timeoutSec and the other arguments of " +
			request.ToolExec + ".",
		Version: h.Version,
		SupportedInterfaces: []*sdk.AgentInterface{
			{URL: url + pathRPC, ProtocolBinding: sdk.TransportProtocolJSONRPC, ProtocolVersion: sdk.Version},
			{URL: url + pathREST, ProtocolBinding: sdk.TransportProtocolHTTPJSON, ProtocolVersion: sdk.Version},
			{URL: url + pathRPC, ProtocolBinding: sdk.TransportProtocolJSONRPC, ProtocolVersion: a2av0.Version},
		},
		Capabilities: sdk.AgentCapabilities{
			Streaming: true, PushNotifications: h.Push != nil,
			Extensions: []sdk.AgentExtension{{URI: profileURI,
				Description: "AdCP structured task invocation, where a request asks for it"}},
		},
		DefaultInputModes:  []string{"text/plain", "application/json"},
		DefaultOutputModes: modes,
		Skills:             h.skills(),
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

func (h *handler) serveCard(w http.ResponseWriter, r *http.Request) {
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

// agentNames are the names of the agents for people.
func (h *handler) agentNames() string {
	var names []string
	for _, a := range h.Service.Agents() {
		names = append(names, a.Name)
	}
	return strings.Join(names, ", ")
}

// skills returns one skill for each agent, and what can be done with the tasks of all.
func (h *handler) skills() (all []sdk.AgentSkill) {
	text, data := []string{"text/plain", "application/json"}, []string{"application/json"}
	for _, a := range h.Service.Agents() {
		option := ""
		if a.Kind() != api.DefaultAgent {
			option = " Send a message with the option agent: " + a.Short + "."
		}
		all = append(all, sdk.AgentSkill{
			ID: a.Short + tools.RunSuffix, InputModes: text, OutputModes: text,
			Tags: append([]string{a.Short, "coding"}, a.Capabilities()...),
			Description: "Runs a coding task with " + a.Name + ". Its messages are streamed, and the last one is the result." +
				option,
			Examples: []string{"Explain what this package does."},
		})
	}
	all = append(all,
		sdk.AgentSkill{
			ID: tools.ResumeTool, Tags: append(h.Service.Agents().Names(), "coding"),
			InputModes: text, OutputModes: text,
			Description: "Resumes the session of an earlier task, with the agent of that task: send the message with the " +
				"contextId of that task.",
			Examples: []string{"Now fix the test that fails."},
		},
		sdk.AgentSkill{
			ID: tools.StatusTool, Tags: []string{"status"}, InputModes: data, OutputModes: data,
			Description: "Returns the status of tasks, as GetTask and ListTasks do; under the AdCP profile it is a skill " +
				"to call.",
		},
		sdk.AgentSkill{
			ID: tools.CancelTool, Tags: []string{"cancel"}, InputModes: data, OutputModes: data,
			Description: "Cancels a task, as CancelTask does; under the AdCP profile it is a skill to call.",
		},
		sdk.AgentSkill{
			ID: tools.PollTool, Tags: []string{"adcp"}, InputModes: data, OutputModes: data,
			Description: "Returns the status of an AdCP task, for requests that ask for the AdCP profile.",
		},
		sdk.AgentSkill{
			ID: tools.CapabilitiesTool, Tags: []string{"adcp"}, InputModes: data,
			OutputModes: data,
			Description: "Returns the releases of AdCP and the agents, for requests that ask for the AdCP profile.",
		})
	titles := map[string]string{}
	for _, t := range h.Tools.Named(tools.ADCPTools) {
		titles[t.Name] = t.Title
	}
	for i := range all {
		all[i].Name = titles[all[i].ID]
	}
	return all
}
