package api

import (
	"bytes"
	"encoding/json"
)

// The run of an answer has the key run. Clients of earlier versions read runId.
const formerRun = "runId"

// MarshalJSON adds the run under its former key.
func (s Submitted) MarshalJSON() ([]byte, error) {
	type plain Submitted
	return withFormer(plain(s), s.Run)
}

// MarshalJSON adds the run under its former key.
func (c Cancelled) MarshalJSON() ([]byte, error) {
	type plain Cancelled
	return withFormer(plain(c), c.Run)
}

// MarshalJSON adds the run under its former key.
func (q Question) MarshalJSON() ([]byte, error) {
	type plain Question
	return withFormer(plain(q), q.Run)
}

// MarshalJSON adds the run under its former key.
func (a Answered) MarshalJSON() ([]byte, error) {
	type plain Answered
	return withFormer(plain(a), a.Run)
}

// MarshalJSON adds the run under its former key.
func (e *Error) MarshalJSON() ([]byte, error) {
	type plain Error
	return withFormer((*plain)(e), e.Run)
}

// withFormer returns an object, which has members, as JSON with the run under its former
// key; "": the answer names none.
func withFormer(object any, run string) ([]byte, error) {
	var b bytes.Buffer
	e := json.NewEncoder(&b)
	e.SetEscapeHTML(false) // the outer encoder decides
	if err := e.Encode(object); err != nil || run == "" {
		return b.Bytes(), err
	}
	b.Truncate(b.Len() - len("}\n"))
	b.WriteString(`,"` + formerRun + `":`)
	if err := e.Encode(run); err != nil {
		return nil, err
	}
	b.WriteByte('}')
	return b.Bytes(), nil
}
