package runs

import (
	"bytes"
	"encoding/json"
	"errors"
	"fmt"
	"strings"
	"unicode/utf8"
)

// An external run asks a question outside of linesman and has no process. Its
// raw log has a start entry, the [Question] as the first line of output, and the
// [Reply] as the second line, which ends the run. The first stored reply wins.
const (
	AgentExternal  = "external" // agent kind of an external run
	SourceExternal = "external" // [Start.Source] of an external run
)

// The values of "type" in the two lines.
const (
	TypeQuestion = "external.question"
	TypeReply    = "external.reply"
)

// Question is the question of an external run.
type Question struct {
	Prompt string `json:"prompt"`          // 1 to MaxShortPrompt characters, not blank
	Model  string `json:"model,omitempty"` // requested model; "": any
}

// Reply is the reply to a [Question].
type Reply struct {
	Status string `json:"status"`          // one of the Reply constants
	Text   string `json:"text,omitempty"`  // with ReplySuccess: the answer, unchanged
	Error  string `json:"error,omitempty"` // with other statuses: error message for people
}

// The statuses of a [Reply].
const (
	ReplySuccess = "success"
	ReplyError   = "error"
	ReplyTimeout = "timeout"
)

// MaxReply is the maximum length of the line of a reply, in bytes. It fits into
// one message, so that a reply is stored atomically.
const MaxReply = 512 << 10

// questionLine and replyLine are the two lines.
type questionLine struct {
	Type string `json:"type"`
	Question
}

type replyLine struct {
	Type string `json:"type"`
	Reply
}

// Line returns the question as a line of output, including the newline. The
// error joins one or more [FieldError].
func (q Question) Line() ([]byte, error) {
	t := Task{Attributes: Attributes{Agent: AgentExternal, Mode: ReadOnly, Model: q.Model}, Prompt: q.Prompt}
	if err := t.Check(); err != nil {
		return nil, err
	}
	if n := utf8.RuneCountInString(q.Prompt); n > MaxShortPrompt {
		return nil, &FieldError{"prompt", fmt.Sprintf("at most %d characters, got %d", MaxShortPrompt, n)}
	}
	return line(questionLine{TypeQuestion, q}), nil
}

// Line returns the reply as a line of output, including the newline. The error
// is a [FieldError].
func (r Reply) Line() ([]byte, error) {
	field, text := "text", r.Text
	switch r.Status {
	case ReplySuccess:
		r.Error = ""
	case ReplyError, ReplyTimeout:
		field, text, r.Text = "error", r.Error, ""
		if strings.TrimSpace(text) == "" {
			return nil, &FieldError{field, "must say what went wrong"}
		}
	default:
		return nil, &FieldError{"status", fmt.Sprintf("must be one of %s, %s, %s", ReplySuccess,
			ReplyError, ReplyTimeout)}
	}
	if !utf8.ValidString(text) {
		return nil, &FieldError{field, "must be UTF-8"}
	}
	b := line(replyLine{TypeReply, r})
	if len(b) > MaxReply {
		return nil, &FieldError{field, fmt.Sprintf("at most %d bytes as JSON, got %d", MaxReply, len(b))}
	}
	return b, nil
}

func line(v any) []byte { return append(encode(v), '\n') }

// ErrNoReply reports output without a reply.
var ErrNoReply = errors.New("there is no reply in the output")

// FindReply returns the reply at the end of the output of an external run. The
// beginning of output may be missing. The error is [ErrNoReply].
func FindReply(output []byte) (Reply, error) {
	end := bytes.TrimRight(output, "\n")
	var l replyLine
	if json.Unmarshal(end[bytes.LastIndexByte(end, '\n')+1:], &l) != nil || l.Type != TypeReply {
		return Reply{}, ErrNoReply
	}
	return l.Reply, nil
}

// FindQuestion returns the question at the beginning of the output of an
// external run.
func FindQuestion(output []byte) (Question, bool) {
	first, _, complete := bytes.Cut(output, []byte("\n"))
	var l questionLine
	if !complete || json.Unmarshal(first, &l) != nil || l.Type != TypeQuestion {
		return Question{}, false
	}
	return l.Question, true
}
