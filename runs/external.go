package runs

import (
	"bytes"
	"encoding/json"
	"errors"
	"fmt"
	"strings"
	"unicode/utf8"

	"github.com/linesman/linesman/bounds"
)

// A run that asks somebody outside has no process. Its raw log is a start
// entry, the [Question] as its first line of output, and the [Reply] as its
// second, which is its end: whoever writes that first has answered.
const (
	AgentExternal  = "external" // agent kind of such a run
	SourceExternal = "external" // its [Start.Source]
)

// The types of the two lines.
const (
	TypeQuestion = "external.question"
	TypeReply    = "external.reply"
)

// Question is what somebody outside is asked.
type Question struct {
	Prompt string // 1 to MaxPrompt characters, not blank
	Model  string // "": whichever
}

// Reply is an answer from outside.
type Reply struct {
	Status string // one of the Reply constants
	Text   string // of a success: the answer, as it is
	Error  string // of everything else: what went wrong, for people
}

// The statuses of a [Reply].
const (
	ReplySuccess = "success"
	ReplyError   = "error"
	ReplyTimeout = "timeout"
)

// MaxReply bounds the line of a reply, in bytes: it must fit one message, so
// that an answer is there wholly or not at all.
const MaxReply = 512 << 10

// questionLine and replyLine are the lines as they are written.
type questionLine struct {
	Type   string `json:"type"`
	Prompt string `json:"prompt"`
	Model  string `json:"model,omitempty"`
}

type replyLine struct {
	Type   string `json:"type"`
	Status string `json:"status"`
	Text   string `json:"text,omitempty"`
	Error  string `json:"error,omitempty"`
}

// Line is the question as output, with its newline. The error is one or several
// [FieldError].
func (q Question) Line() ([]byte, error) {
	t := Task{Run: "x", Agent: AgentExternal, Mode: ReadOnly, Prompt: q.Prompt, Model: q.Model}
	if err := t.Check(); err != nil {
		return nil, err
	}
	return line(questionLine{TypeQuestion, q.Prompt, q.Model}), nil
}

// Line is the reply as output, with its newline. The error is a [FieldError].
func (r Reply) Line() ([]byte, error) {
	l := replyLine{Type: TypeReply, Status: r.Status}
	field, text := "text", r.Text
	switch r.Status {
	case ReplySuccess:
		l.Text = text
	case ReplyError, ReplyTimeout:
		field, text = "error", r.Error
		l.Error = text
		if strings.TrimSpace(text) == "" {
			return nil, &FieldError{field, "must say what went wrong"}
		}
	default:
		return nil, &FieldError{"status", fmt.Sprintf("must be one of %s, %s, %s", ReplySuccess, ReplyError, ReplyTimeout)}
	}
	if !utf8.ValidString(text) {
		return nil, &FieldError{field, "must be UTF-8"}
	}
	b := line(l)
	if len(b) > MaxReply {
		return nil, &FieldError{field, fmt.Sprintf("at most %d bytes as JSON, got %d", MaxReply, len(b))}
	}
	return b, nil
}

func line(v any) []byte {
	b, err := bounds.Encode(v)
	if err != nil { // strings alone
		panic(fmt.Sprintf("runs: encode %T: %v", v, err))
	}
	return append(bytes.TrimRight(b, "\n"), '\n')
}

// ErrNoReply reports output that holds no reply.
var ErrNoReply = errors.New("there is no reply in the output")

// FindReply is the reply in the output of a run that was answered. Output may
// lack its beginning.
func FindReply(output []byte) (Reply, error) {
	end := bytes.TrimRight(output, "\n")
	var l replyLine
	if json.Unmarshal(end[bytes.LastIndexByte(end, '\n')+1:], &l) != nil || l.Type != TypeReply {
		return Reply{}, ErrNoReply
	}
	return Reply{Status: l.Status, Text: l.Text, Error: l.Error}, nil
}

// FindQuestion is the question at the beginning of a run's output.
func FindQuestion(output []byte) (Question, bool) {
	first, _, whole := bytes.Cut(output, []byte("\n"))
	var l questionLine
	if !whole || json.Unmarshal(first, &l) != nil || l.Type != TypeQuestion {
		return Question{}, false
	}
	return Question{Prompt: l.Prompt, Model: l.Model}, true
}
