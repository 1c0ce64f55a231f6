package natsapi

import (
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"net/http"

	"github.com/tidwall/gjson"

	"github.com/linesman/linesman/responder/adcp"
	v36 "github.com/linesman/linesman/responder/v36"
)

// Endpoint is a subject of the service and the functions that answer it.
type Endpoint struct {
	Name     string            // last token of the subject
	Metadata map[string]string // as `nats service info` shows it

	// Do answers a request. It may block.
	Do func(ctx context.Context, body []byte) Answer
	// Hold is set instead of Do by an endpoint whose answer may be larger than a message, and may have parts
	// before: progress sends the progress of the call. ctx also ends if the caller stops the request, or does
	// not renew it.
	Hold func(ctx context.Context, body []byte, progress func(body []byte)) Answer
	// Refuse is the body of an error that the service itself answers with, of a
	// code of HTTP; nil: none.
	Refuse func(code int, text string) []byte
}

// Answer is the answer of an endpoint.
type Answer struct {
	Body []byte
	Type string // media type; "": JSON of package api
	Code int    // of HTTP, for an error; 0: none
	Text string // of an error: one line of ASCII
}

// tools are the v3.6 tools.
type tools interface {
	// Call runs one tool. The only error is [v36.ErrUnknownTool]; any other
	// failure is in the answer.
	Call(ctx context.Context, tool string, args json.RawMessage, progress func(v36.Progress)) (v36.Answer, error)
}

// ToolEndpoints are endpoints of tools, each under its own name. An answer is
// an envelope.
func ToolEndpoints(tools tools, list []v36.Tool) []Endpoint {
	var all []Endpoint
	for _, t := range list {
		all = append(all, Endpoint{
			Name: t.Name, Metadata: map[string]string{"description": t.Title, "tool": t.Name, "category": t.Category},
			Do: func(ctx context.Context, body []byte) Answer {
				a, err := tools.Call(ctx, t.Name, arguments(body), nil)
				switch {
				case errors.Is(err, v36.ErrUnknownTool): // cannot happen: the names are from the list
					return Answer{Code: http.StatusNotFound, Text: "unknown tool"}
				case err != nil:
					return Answer{Code: http.StatusInternalServerError, Text: "internal error"}
				case a.IsError:
					code, text := problem(a)
					return Answer{Body: a.Envelope, Code: code, Text: text}
				}
				return Answer{Body: a.Envelope}
			},
		})
	}
	return all
}

// codes are the HTTP statuses of the codes of v3.6.
var codes = map[string]int{
	"VALIDATION": 400, "NOT_FOUND": 404, "TIMEOUT": 408, "INTERNAL": 500, "UNSUPPORTED": 501, "TOOL_ERROR": 502,
}

// problem is the error of a tool's answer, v3.6 or AdCP, in the form of headers.
func problem(a v36.Answer) (code int, text string) {
	if a.Code == "" {
		return http.StatusInternalServerError, "internal error"
	}
	if code = codes[a.Code]; code == 0 {
		code = adcp.Code(a.Code).HTTP()
	}
	return code, a.Code + ": " + line(a.Message)
}

// arguments are those of a request to a tool. If they name no format and no release
// of AdCP, JSON is set, so that no markdown is made that the caller does not read.
func arguments(body []byte) []byte {
	const format = `{"format":"json"`
	body = bytes.Trim(body, space)
	switch {
	case len(body) == 0, string(body) == "null":
		return []byte(format + "}")
	case body[0] != '{', mayHave(body, "format") && gjson.GetBytes(body, "format").Exists(),
		mayHave(body, "adcp") && adcp.NamesRelease(body):
		return body
	}
	rest := bytes.Trim(body[1:], space)
	out := append(make([]byte, 0, len(format)+1+len(rest)), format...)
	if len(rest) > 0 && rest[0] != '}' {
		out = append(out, ',')
	}
	return append(out, rest...)
}

// space is the white space of JSON.
const space = " \t\r\n"

// mayHave reports whether JSON may contain a name. It is fast if it does not.
func mayHave(body []byte, name string) bool {
	return bytes.IndexByte(body, '\\') >= 0 || bytes.Contains(body, []byte(name))
}
