package a2a

import (
	"context"
	"crypto/sha256"
	"encoding/hex"
	"encoding/json"
	"slices"
	"strconv"
	"strings"
	"unicode/utf8"

	sdk "github.com/a2aproject/a2a-go/v2/a2a"
	"github.com/tidwall/gjson"

	"github.com/linesman/linesman/api"
	"github.com/linesman/linesman/responder/request"
	"github.com/linesman/linesman/runs"
)

// message is a valid message: one that can become a task, or is for one.
type message struct {
	args    *request.Args // the arguments of its task: its texts and its data; nil: it is for the task of a run
	run     string        // if args is nil
	do      order         // the same
	context string        // the context that it continues, as named by the caller; "": a new one
	again   bool          // a repetition: the task already exists

	// settled reports whether a blocking send returns: the turn of the message has ended, or people are asked.
	settled func(runs.Header) bool
	keeps   bool   // the run is kept: then a stream ends, too
	after   uint64 // sequence of the last event that a stream does not have
}

// order carries a message for a task out, and returns when it is settled.
type order func(ctx context.Context) (settled func(runs.Header) bool, err error)

// modes are the media types of a task's output.
var modes = []string{"text/plain", "application/json"}

// readMessage checks the requirements of every message.
func readMessage(q *sdk.SendMessageRequest) (*sdk.Message, error) {
	wrong := func(why string) error { return fail(sdk.ErrInvalidParams, why) }
	if q == nil || q.Message == nil {
		return nil, wrong("message: is required")
	}
	m := q.Message
	switch {
	case m.ID == "":
		return nil, wrong("message.messageId: is required")
	case !utf8.ValidString(m.ID):
		return nil, wrong("message.messageId: must be UTF-8")
	case m.Role != sdk.MessageRoleUser:
		return nil, wrong("message.role: must be ROLE_USER")
	case len(m.Parts) == 0:
		return nil, wrong("message.parts: are required")
	case len(m.Parts) > maxParts:
		return nil, wrong("message.parts: at most " + strconv.Itoa(maxParts))
	case slices.Contains(m.Parts, nil):
		return nil, wrong("message.parts: none may be null")
	}
	if q.Config == nil {
		return m, nil
	}
	if err := checkHistory(q.Config.HistoryLength); err != nil {
		return nil, err
	}
	if accepted := q.Config.AcceptedOutputModes; len(accepted) > 0 && !slices.ContainsFunc(accepted, gives) {
		return nil, fail(sdk.ErrUnsupportedContentType, "acceptedOutputModes: a task gives "+strings.Join(modes, " and "))
	}
	return m, nil
}

// gives reports whether the output of a task has a media type.
func gives(accepted string) bool {
	media, _, _ := strings.Cut(strings.ToLower(accepted), ";")
	media = strings.TrimSpace(media)
	family, any := strings.CutSuffix(media, "*")
	return media == "text" || slices.ContainsFunc(modes, func(m string) bool {
		return m == media || any && (family == "*/" || strings.HasPrefix(m, family))
	})
}

// read converts a message to the arguments of a task: its texts are the prompt,
// its one data part the options.
func (h *handler) read(ctx context.Context, q *sdk.SendMessageRequest) (*message, error) {
	m, err := readMessage(q)
	if err != nil {
		return nil, err
	}
	texts, options, err := readParts(ctx, m, "one data part holds all options",
		"texts and one data part are taken, no files")
	if err != nil {
		return nil, err
	}
	_, text := m.Parts[0].Content.(sdk.Text)
	if err := checkOptions(options, text); err != nil {
		return nil, err
	}
	if m.TaskID != "" {
		v, err := h.find(ctx, m.TaskID)
		if err != nil {
			return nil, err
		}
		return h.readForTask(ctx, m, v, texts, options)
	}
	presets := []request.Preset{{Name: request.Format, Value: "adcp"}, {Name: request.Key, Value: keyOf(m.ID)}}
	if m.ContextID != "" {
		presets = append(presets, request.Preset{Name: request.ContextID, Value: m.ContextID})
	}
	if prompt := strings.Join(texts, "\n\n"); prompt != "" {
		presets = append(presets, request.Preset{Name: "task", Value: prompt})
	}
	args := request.Read(request.TaskParams, options, presets...)
	begun, err := request.Begun(ctx, h.Service, request.ToolExec, args)
	if err != nil {
		return nil, h.unsent(err)
	}
	if m.ContextID != "" && !begun {
		if talk, err := h.talkIn(ctx, m, texts, options); talk != nil || err != nil {
			return talk, err
		}
		if err := h.continues(m.ContextID); err != nil {
			return nil, err
		}
	}
	return &message{args: args, context: m.ContextID, settled: asksAnew(""), keeps: args.Flag("keep")}, nil
}

// readParts returns the texts of a message, and the data of its one data part. The
// reasons are those of errors: for two data parts, and for files.
func readParts(ctx context.Context, m *sdk.Message, two, files string) (texts []string, data json.RawMessage,
	err error) {
	for i, p := range m.Parts {
		switch p.Content.(type) {
		case sdk.Text:
			texts = append(texts, p.Text())
		case sdk.Data:
			if data != nil {
				return nil, nil, fail(sdk.ErrInvalidParams, "message.parts: "+two)
			}
			if data, err = dataOf(ctx, i, p); err != nil {
				return nil, nil, err
			}
		default:
			return nil, nil, fail(sdk.ErrUnsupportedContentType, "message.parts: "+files)
		}
	}
	return texts, data, nil
}

// dataOf returns the data of a part as it was written, if that is known: a
// number may have more digits than a float.
func dataOf(ctx context.Context, i int, p *sdk.Part) (json.RawMessage, error) {
	raw := json.RawMessage(nil)
	if parts := callOf(ctx).parts; i < len(parts) {
		if data := parts[i].Get("data"); data.Exists() {
			raw = json.RawMessage(data.Raw)
		}
	}
	if raw == nil {
		var err error
		if raw, err = json.Marshal(p.Data()); err != nil {
			return nil, fail(sdk.ErrInvalidParams, "message.parts: the data is no JSON")
		}
	}
	if !gjson.ParseBytes(raw).IsObject() {
		return nil, fail(sdk.ErrInvalidParams, "message.parts: the data must be an object")
	}
	return raw, nil
}

// elsewhere are the options that another part of the message determines.
var elsewhere = map[string]string{
	"format": "the protocol", "idempotency_key": "messageId", "idempotencyKey": "messageId", "context_id": "contextId",
	"contextId": "contextId",
}

func checkOptions(options json.RawMessage, text bool) error {
	var err error
	gjson.ParseBytes(options).ForEach(func(key, _ gjson.Result) bool {
		name := key.String()
		where := elsewhere[name]
		if name == "task" && text {
			where = "the text part"
		}
		if where != "" {
			err = fail(sdk.ErrInvalidParams, "message.parts: "+name+" is no option: "+where+" says it")
		}
		return err == nil
	})
	return err
}

// continues refuses a context that cannot be continued, or is unknown: callers cannot invent contexts.
func (h *handler) continues(name string) error {
	_, known, err := h.Service.Continues(name)
	if !known {
		return fail(sdk.ErrInvalidParams, "message.contextId: names no context that is known here; leave it out "+
			"to begin one")
	}
	if err != nil {
		return fail(sdk.ErrUnsupportedOperation, "message.contextId: its task: "+api.Known(err).Message)
	}
	return nil
}

// keyOf returns the idempotency key of a message: its id, if that is a valid
// key.
func keyOf(messageID string) string {
	if request.KeyForm().MatchString(messageID) {
		return messageID
	}
	sum := sha256.Sum256([]byte(messageID))
	return "a2a-" + hex.EncodeToString(sum[:])
}
