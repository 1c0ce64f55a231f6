package bridge

import (
	"bytes"
	"encoding/json"
	"errors"
	"fmt"
	"strconv"
	"strings"
	"time"
	"unicode"
	"unicode/utf8"
)

// Limits of a request.
const (
	MaxRequest = 1 << 20 // bytes of a request file
	MaxID      = 128     // bytes of a request_id

	maxSuffix = 64 // bytes between ".agent-request" and ".json"
	maxNote   = 64 // bytes of a field that only describes the request
)

// DefaultTimeout is the time of a request that names none.
const DefaultTimeout = 120 * time.Second

// Request is what a request file asks for. Fields that the contract does not
// know are not an error, and neither are those that only describe the request.
type Request struct {
	ID      string
	Prompt  string
	Model   string        // "": the agent's own choice
	Timeout time.Duration // positive

	// Phase, PhaseName and Agent describe the request: text of at most 64
	// bytes, "" for what is missing or is none.
	Phase, PhaseName, Agent string

	// Problems say what is wrong with the fields above, each naming one and
	// quoting none. A request that has some can be answered, with an error.
	Problems []string
}

// Why a file is no request, or not yet: the one who writes it may not be done.
var (
	errNoObject = errors.New("it is not a JSON object")
	errNoID     = fmt.Errorf("its request_id is not text of 1 to %d bytes", MaxID)
	errTooLarge = fmt.Errorf("it has more than %d bytes", MaxRequest)
)

// ParseRequest reads the content of a request file. The error says that it
// cannot be answered, because it does not even have an id.
func ParseRequest(b []byte) (Request, error) {
	if len(b) > MaxRequest {
		return Request{}, errTooLarge
	}
	b = bytes.TrimPrefix(b, []byte("\xef\xbb\xbf")) // a byte order mark
	var field map[string]json.RawMessage
	if !utf8.Valid(b) || json.Unmarshal(b, &field) != nil || field == nil {
		return Request{}, errNoObject
	}
	r := Request{Timeout: DefaultTimeout}
	var ok bool
	if r.ID, ok = textOf(field["request_id"]); !ok || !printable(r.ID) || strings.TrimSpace(r.ID) == "" || len(r.ID) > MaxID {
		return Request{}, errNoID
	}
	wrong := func(text string) { r.Problems = append(r.Problems, text) }
	if r.Prompt, ok = textOf(field["prompt"]); !ok || strings.TrimSpace(r.Prompt) == "" {
		r.Prompt = ""
		wrong("prompt: must be text that is not blank")
	}
	if raw := field["timeout_seconds"]; !isNull(raw) {
		const most = 1e6 // almost twelve days
		seconds, err := strconv.ParseFloat(string(raw), 64)
		if err != nil && !errors.Is(err, strconv.ErrRange) || seconds <= 0 {
			wrong("timeout_seconds: must be a number above 0")
		} else {
			r.Timeout = max(time.Duration(min(seconds, most)*float64(time.Second)), time.Millisecond)
		}
	}
	if raw := field["model"]; !isNull(raw) {
		if r.Model, ok = textOf(raw); !ok {
			wrong("model: must be text or null")
		}
	}
	r.Phase, r.PhaseName, r.Agent = note(field["phase"]), note(field["phase_name"]), note(field["agent_name"])
	return r, nil
}

// ResponseName is the name of the file that answers the request in a file of
// the given name; false where that is not the name of a request.
func ResponseName(request string) (string, bool) {
	suffix, ok := strings.CutPrefix(request, ".agent-request")
	if !ok {
		return "", false
	}
	suffix, ok = strings.CutSuffix(suffix, ".json")
	if !ok || len(suffix) > maxSuffix || strings.ContainsFunc(suffix, notInName) {
		return "", false
	}
	return ".agent-response" + suffix + ".json", true
}

func isRequest(name string) bool { _, ok := ResponseName(name); return ok }

func isResponse(name string) bool {
	suffix, ok := strings.CutPrefix(name, ".agent-response")
	return ok && isRequest(".agent-request"+suffix)
}

func notInName(c rune) bool {
	return c != '-' && c != '_' && c != '.' && (c < '0' || c > '9') && (c < 'a' || c > 'z') && (c < 'A' || c > 'Z')
}

// textOf is the string that raw holds.
func textOf(raw json.RawMessage) (string, bool) {
	if len(raw) == 0 || raw[0] != '"' {
		return "", false
	}
	var s string
	return s, json.Unmarshal(raw, &s) == nil
}

// note is a text or a number that fits a label, else "".
func note(raw json.RawMessage) string {
	s, ok := textOf(raw)
	if !ok {
		if _, err := strconv.ParseFloat(string(raw), 64); err != nil {
			return ""
		}
		s = string(raw)
	}
	if len(s) > maxNote || !printable(s) {
		return ""
	}
	return s
}

func isNull(raw json.RawMessage) bool { return len(raw) == 0 || string(raw) == "null" }

func printable(s string) bool {
	return utf8.ValidString(s) && !strings.ContainsFunc(s, unicode.IsControl)
}
