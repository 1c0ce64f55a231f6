package v36

import "github.com/linesman/linesman/api"

// Plain returns the answer of a tool that the v3.6 contract does not have: the outcome as a
// JSON object, with what the caller may do next as its last member, unless that is "". Such a
// tool has no category.
func Plain(outcome any, next string) Answer {
	b := encode(outcome)
	if next != "" {
		b = append(append(append(b[:len(b)-1], `,"next":`...), encode(next)...), '}')
	}
	return Answer{Envelope: b, JSON: true}
}

// plainError returns the error of such a tool.
func plainError(err *api.Error) Answer {
	a := Plain(struct {
		Error *api.Error `json:"error"`
	}{err}, "")
	a.IsError, a.Code, a.Message = true, string(err.Code), err.Message
	return a
}
