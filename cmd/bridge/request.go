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

	"github.com/linesman/linesman/internal/lazy"
)

// Limits of a request.
const (
	maxRequest = 1 << 20 // bytes of a request file
	maxID      = 128     // bytes of a request_id

	maxDescription = 64 // bytes of a field that only describes the request
)

// defaultTimeout is the timeout of a request that sets none.
const defaultTimeout = 120 * time.Second

// requestFile is the content of a request file. Unknown fields are ignored; fields
// that only describe the request are never an error.
type requestFile struct {
	ID      string
	Prompt  string
	Model   string        // "": the agent's own choice
	Timeout time.Duration // positive

	// Phase, PhaseName and Agent describe the request: text of at most 64 bytes, or
	// "" if missing or invalid.
	Phase, PhaseName, Agent string

	// Problems are the errors in the fields above; each names a field and quotes no
	// value. A request with problems is answered with an error.
	Problems []string
}

// Errors of a file that holds no request; it may be incomplete.
var (
	errNoObject = errors.New("it is not a JSON object")
	errNoID     = fmt.Errorf("its request_id is not text of 1 to %d bytes", maxID)
	errTooLarge = fmt.Errorf("it has more than %d bytes", maxRequest)
)

// parseRequest parses the content of a request file. After an error the
// request cannot be answered, because its id is unknown.
func parseRequest(b []byte) (requestFile, error) {
	if len(b) > maxRequest {
		return requestFile{}, errTooLarge
	}
	b = bytes.TrimPrefix(b, []byte("\xef\xbb\xbf")) // byte order mark
	var field map[string]json.RawMessage
	if !utf8.Valid(b) || json.Unmarshal(b, &field) != nil || field == nil {
		return requestFile{}, errNoObject
	}
	r := requestFile{Timeout: defaultTimeout}
	var ok bool
	r.ID, ok = textOf(field["request_id"])
	if !ok || !printable(r.ID) || strings.TrimSpace(r.ID) == "" || len(r.ID) > maxID {
		return requestFile{}, errNoID
	}
	wrong := func(text string) { r.Problems = append(r.Problems, text) }
	if r.Prompt, ok = textOf(field["prompt"]); !ok || strings.TrimSpace(r.Prompt) == "" {
		r.Prompt = ""
		wrong("prompt: must be text that is not blank")
	}
	if raw := field["timeout_seconds"]; !isNull(raw) {
		const limit = 1e6 // almost twelve days
		seconds, err := strconv.ParseFloat(string(raw), 64)
		if err != nil && !errors.Is(err, strconv.ErrRange) || seconds <= 0 {
			wrong("timeout_seconds: must be a number above 0")
		} else {
			r.Timeout = max(time.Duration(min(seconds, limit)*float64(time.Second)), time.Millisecond)
		}
	}
	if raw := field["model"]; !isNull(raw) {
		if r.Model, ok = textOf(raw); !ok {
			wrong("model: must be text or null")
		}
	}
	r.Phase, r.PhaseName = shortText(field["phase"]), shortText(field["phase_name"])
	r.Agent = shortText(field["agent_name"])
	return r, nil
}

var requestName = lazy.Regexp(`^\.agent-request([-_.0-9A-Za-z]{0,64})\.json$`)

// responseName returns the name of the response file for a request file, or
// false if request is not the name of a request file.
func responseName(request string) (string, bool) {
	m := requestName().FindStringSubmatch(request)
	if m == nil {
		return "", false
	}
	return ".agent-response" + m[1] + ".json", true
}

func isRequest(name string) bool { _, ok := responseName(name); return ok }

func isResponse(name string) bool {
	suffix, ok := strings.CutPrefix(name, ".agent-response")
	return ok && isRequest(".agent-request"+suffix)
}

// textOf returns the JSON string in raw.
func textOf(raw json.RawMessage) (string, bool) {
	if len(raw) == 0 || raw[0] != '"' {
		return "", false
	}
	var s string
	return s, json.Unmarshal(raw, &s) == nil
}

// shortText returns a text or number of at most maxDescription bytes, else "".
func shortText(raw json.RawMessage) string {
	s, ok := textOf(raw)
	if !ok {
		if _, err := strconv.ParseFloat(string(raw), 64); err != nil {
			return ""
		}
		s = string(raw)
	}
	if len(s) > maxDescription || !printable(s) {
		return ""
	}
	return s
}

func isNull(raw json.RawMessage) bool { return len(raw) == 0 || string(raw) == "null" }

func printable(s string) bool {
	return utf8.ValidString(s) && !strings.ContainsFunc(s, unicode.IsControl)
}
