package responder

import (
	"cmp"
	"context"
	"crypto/sha256"
	"encoding/hex"
	"encoding/json"
	"errors"
	"fmt"
	"maps"
	"slices"
	"strings"

	"github.com/google/jsonschema-go/jsonschema"

	"github.com/linesman/linesman/agent/acp"
	"github.com/linesman/linesman/api"
	"github.com/linesman/linesman/bounds"
	"github.com/linesman/linesman/runs"
)

// Questions of live runs. The record has where a request is in the output; what it asks is read there, each time.

const (
	maxRequest   = runs.MaxLiveLine // bytes of a request: a longer one is never open
	requestPiece = 128 << 10        // bytes of a piece of a request
)

// request is an open question, with the request of the agent.
type request struct {
	runs.Asked
	line   []byte
	digest string
	always bool // options that last may be chosen
	asks   acp.Asked
	shown  api.Question // what people see of it
}

// liveQuestions adds the questions of a live run that people are asked.
func (s *Service) liveQuestions(ctx context.Context, record *runs.Record, all []api.Question) ([]api.Question, error) {
	for _, asked := range record.Live.Questions {
		if !asked.People {
			continue
		}
		q, err := s.readRequest(ctx, record, asked)
		if err != nil {
			return all, err
		}
		all = append(all, q.shown)
	}
	return all, nil
}

// QuestionOf returns an open question that people are asked, by its id and the record of its live run; nil: it is not
// open.
func (s *Service) QuestionOf(ctx context.Context, record *runs.Record, id string) (*api.Question, error) {
	q, err := s.findRequest(ctx, record, id)
	if q == nil || err != nil {
		return nil, err
	}
	return &q.shown, nil
}

// readRequest reads the request of a question. One that cannot be read has no line.
func (s *Service) readRequest(ctx context.Context, record *runs.Record, asked runs.Asked) (*request, error) {
	q := &request{Asked: asked, always: record.Live != nil && record.Live.Always}
	if err := s.readLine(ctx, record, q); err != nil {
		return nil, err
	}
	q.shown = q.question(record)
	return q, nil
}

func (s *Service) readLine(ctx context.Context, record *runs.Record, q *request) error {
	asked := &q.Asked
	if asked.Length > maxRequest {
		return nil
	}
	for len(q.line) < asked.Length {
		at, more, err := s.cfg.Streams.OutputAt(ctx, record.Agent, record.ID, runs.Out, asked.Offset+int64(len(q.line)),
			asked.Length-len(q.line))
		if err != nil {
			return s.explain("read a question", err)
		}
		if len(more) == 0 || at != asked.Offset+int64(len(q.line)) { // RAW has lost it
			q.line = nil
			return nil
		}
		q.line = append(q.line, more...)
	}
	sum := sha256.Sum256(q.line)
	q.digest = hex.EncodeToString(sum[:])
	q.read()
	return nil
}

// read reads the line. An option called allow that denies, or deny that allows, is left out.
func (q *request) read() {
	q.asks, _ = acp.AskedIn(q.line)
	q.asks.Options = slices.DeleteFunc(q.asks.Options, func(o acp.NamedOption) bool { return isMisnamed(o.ID, o.Kind) })
}

// isMisnamed reports whether the id of an option is a word that allows or denies, and its kind does not.
func isMisnamed(id, kind string) bool {
	return id == "allow" && !strings.HasPrefix(kind, "allow_") || id == "deny" && !strings.HasPrefix(kind, "reject_")
}

// findRequest returns a question of a run that people are asked; without an id the only one. It is nil if it is not
// open.
func (s *Service) findRequest(ctx context.Context, record *runs.Record, id string) (*request, error) {
	var open []runs.Asked
	if record.Live != nil {
		open = slices.Clone(record.Live.Questions)
	}
	open = slices.DeleteFunc(open, func(q runs.Asked) bool { return !q.People || id != "" && q.ID != id })
	if id == "" && len(open) > 1 {
		return nil, api.Invalid("question", fmt.Sprintf("is required: %d questions are open", len(open)))
	}
	if len(open) == 0 {
		return nil, nil
	}
	return s.readRequest(ctx, record, open[0])
}

// Request returns a piece of the request of an open question, as the agent wrote it.
func (s *Service) Request(ctx context.Context, r api.RequestRequest) (api.Request, error) {
	record, err := s.table.Record(ctx, r.Run)
	if err != nil {
		return api.Request{}, s.explainRun(r.Run, "read a record", err)
	}
	q, err := s.findRequest(ctx, record, r.Question)
	switch {
	case err != nil:
		return api.Request{}, err
	case q == nil || q.digest == "":
		return api.Request{}, &api.Error{Code: api.NotWaiting, Field: "question", Run: r.Run,
			Message: "the question is not open"}
	case r.Offset < 0 || r.Offset > len(q.line):
		return api.Request{}, api.Invalid("offset", "is not in the request")
	}
	rest := string(q.line[r.Offset:])
	piece := rest[:bounds.Cut(rest, requestPiece)]
	out := api.Request{Text: piece, Offset: r.Offset, Bytes: len(q.line), Digest: q.digest}
	if end := r.Offset + len(piece); end < len(q.line) {
		out.Next = end
	}
	return out, nil
}

// decide answers a question of a live run.
func (s *Service) decide(ctx context.Context, record *runs.Record, r api.AnswerRequest) (api.Answered, error) {
	q, err := s.findRequest(ctx, record, r.Question)
	if err != nil {
		return api.Answered{}, err
	}
	cmd := runs.Command{Question: r.Question, Option: r.Option} // asks only what was decided
	cmd.By, cmd.Via = decider(ctx)
	switch {
	case q != nil:
		cmd.Do, cmd.Question = runs.DoAnswer, q.ID
	case r.Content != nil && len(r.Content) <= 2*runs.MaxContent && cmp.Or(r.Option, runs.Accept) == runs.Accept:
		cmd.Option, cmd.Content = runs.Accept, runs.Encode(r.Content)
	}
	switch {
	case cmd.Question != "":
	case record.State.Final():
		return api.Answered{}, ended(record.ID, record.State)
	default:
		return api.Answered{}, &api.Error{Code: api.NotWaiting, Field: api.FieldRun, Run: record.ID,
			Message: "the run has no open question"}
	}
	sum := sha256.Sum256(runs.Encode([]string{cmd.Question, r.Option, string(r.Content)}))
	cmd.ID = hex.EncodeToString(sum[:16])
	if q != nil {
		if err := q.check(&cmd, r); err != nil {
			return api.Answered{}, err
		}
	}
	ruling, err := s.table.Decide(ctx, record.ID, cmd)
	if err == nil && ruling.Why == runs.WhyUnfit && q != nil && q.denies(cmd.Option) {
		cmd.ID, cmd.Option = cmd.ID+"-", "" // its options are too many to be kept: it can only be closed
		ruling, err = s.table.Decide(ctx, record.ID, cmd)
	}
	if err != nil {
		return api.Answered{}, s.explainRun(record.ID, "answer", err)
	}
	a, err := q.answered(record.ID, cmd, ruling)
	if err == nil && record.State.Final() {
		a.State = record.State
	}
	return a, err
}

// check completes the command of an answer.
func (q *request) check(cmd *runs.Command, r api.AnswerRequest) error {
	switch {
	case r.Digest != "" && r.Digest != q.digest:
		return api.Invalid("digest", "is not that of the request")
	case r.Digest == "" && (q.shown.Cut || q.digest == "") && !q.denies(r.Option):
		return &api.Error{Code: api.Validation, Field: "digest", Message: "is required: the question is not shown in full",
			Suggestion: "read the whole request, and give its digest"}
	case q.Kind == api.KindForm:
		return q.checkForm(cmd, r)
	case r.Content != nil:
		return api.Invalid("content", "is for forms")
	}
	kind := map[string]string{"allow": "allow_once", "deny": "reject_once"}[r.Option]
	var fit []string
	for _, o := range q.asks.Options {
		switch {
		case o.ID != r.Option:
		case o.Lasts() && !q.always && kind != "": // the word is for another one
		case o.Lasts() && !q.always:
			return api.Invalid("option",
				"holds for longer than the call, which the worker's setting live.always does not permit")
		default:
			return nil
		}
		if kind != "" && o.Kind == kind {
			fit = append(fit, o.ID)
		}
	}
	switch {
	case len(fit) == 1:
		cmd.Option = fit[0]
		return nil
	case r.Option == "deny" && len(fit) == 0:
		cmd.Option = "" // closed without an option
		return nil
	case kind != "":
		return api.Invalid("option", fmt.Sprintf("%d options are of the kind %s: name the id of one", len(fit), kind))
	}
	return api.Invalid("option", "must be the id of an option, allow or deny")
}

// denies reports whether an answer permits nothing.
func (q *request) denies(option string) bool {
	if q.Kind == api.KindForm {
		return option == "deny" || option == runs.Decline || option == "cancel"
	}
	return option == "deny" || slices.ContainsFunc(q.asks.Options,
		func(o acp.NamedOption) bool { return o.ID == option && strings.HasPrefix(o.Kind, "reject_") })
}

func (q *request) checkForm(cmd *runs.Command, r api.AnswerRequest) error {
	switch {
	case r.Content != nil && (r.Option == "" || r.Option == runs.Accept):
	case r.Content == nil && (r.Option == runs.Decline || r.Option == "deny"):
		cmd.Option = runs.Decline
		return nil
	case r.Content == nil && r.Option == "cancel":
		cmd.Option = ""
		return nil
	default:
		return api.Invalid("content", "is required, or the option decline or cancel")
	}
	content := runs.Encode(r.Content) // compact
	if len(content) > runs.MaxContent || content[0] != '{' {
		return api.Invalid("content", fmt.Sprintf("must be an object of at most %d bytes", runs.MaxContent))
	}
	if err := fits(q.asks.Fields, content); err != nil {
		return api.Invalid("content", err.Error())
	}
	cmd.Option, cmd.Content = runs.Accept, content
	return nil
}

var errSchema = errors.New("the agent's form has no valid schema: decline or cancel it")

// fits checks a content against the schema of a form. The error has names of fields, no values.
func fits(schema, content []byte) error {
	var parsed any
	if err := json.Unmarshal(schema, &parsed); err != nil || !flat(parsed, 0) {
		return errSchema
	}
	parts, patterns := partsOf(parsed)
	if parts*len(content) > maxChecks || patterns*len(content) > maxMatched || patterns > 0 && len(schema) > acp.MaxAsked {
		return errSchema
	}
	dropNulls(parsed)
	plain, err := json.Marshal(parsed)
	if err != nil {
		return errSchema
	}
	var form jsonschema.Schema
	if json.Unmarshal(plain, &form) != nil || form.Type != "" && form.Type != "object" ||
		form.Schema != "" && !strings.Contains(form.Schema, "//json-schema.org/") {
		return errSchema
	}
	form.Schema = "" // forms use what all versions have
	var value any
	if err := json.Unmarshal(content, &value); err != nil {
		return errors.New("must be JSON")
	}
	whole, err := form.CloneSchemas().Resolve(nil)
	if err != nil {
		return errSchema
	}
	if whole.Validate(value) == nil {
		return nil
	}
	fields, _ := value.(map[string]any)
	for _, name := range slices.Sorted(maps.Keys(form.Properties)) {
		field, given := fields[name]
		if one, err := form.Properties[name].CloneSchemas().Resolve(nil); given && err == nil && one.Validate(field) != nil {
			return fmt.Errorf("is not what the form asks for: field %q", name)
		}
	}
	return errors.New("is not what the form asks for: a field is missing, or is too many")
}

// flat reports whether a schema costs little to check against: it is not deep, and has no references, by which a few
// lines would be checked without end.
func flat(schema any, depth int) bool {
	if depth > 16 {
		return false
	}
	switch v := schema.(type) {
	case map[string]any:
		for key, one := range v {
			if strings.HasPrefix(key, "$") && key != "$schema" || !flat(one, depth+1) {
				return false
			}
		}
	case []any:
		for _, one := range v {
			if !flat(one, depth+1) {
				return false
			}
		}
	}
	return true
}

// What a check may cost: parts of a schema, and patterns in it, each times the bytes of a content. One that is too long
// to be shown may have no pattern.
const (
	maxChecks  = 4 << 20
	maxMatched = 32 << 10
)

// partsOf counts the objects of a schema, and its patterns.
func partsOf(schema any) (parts, patterns int) {
	add := func(one any) {
		n, m := partsOf(one)
		parts, patterns = parts+n, patterns+m
	}
	switch v := schema.(type) {
	case map[string]any:
		parts++
		for key, one := range v {
			if add(one); key == "pattern" {
				patterns++
			} else if names, is := one.(map[string]any); is && key == "patternProperties" {
				patterns += len(names)
			}
		}
	case []any:
		for _, one := range v {
			add(one)
		}
	}
	return parts, patterns
}

// dropNulls removes the members of a flat schema that are null: in ACP that is the same as absent.
func dropNulls(schema any) {
	switch v := schema.(type) {
	case map[string]any:
		maps.DeleteFunc(v, func(key string, one any) bool { return one == nil && key != "const" })
		for _, one := range v {
			dropNulls(one)
		}
	case []any:
		for _, one := range v {
			dropNulls(one)
		}
	}
}

// answered is the outcome of an answer; q may be nil.
func (q *request) answered(run string, cmd runs.Command, ruling runs.Ruling) (api.Answered, error) {
	refused := func(code api.Code, message string) (api.Answered, error) {
		return api.Answered{}, &api.Error{Code: code, Message: message, Run: run, Reason: ruling.Why}
	}
	switch {
	case ruling.Holds:
	case ruling.Why == runs.WhyDecided:
		what := "it was closed"
		if ruling.Option != "" {
			what = "the answer was " + ruling.Option
		}
		return refused(api.Conflict, fmt.Sprintf("question %s is answered: %s, by %s", cmd.Question, what,
			strings.TrimSuffix(ruling.By+" over "+ruling.Via, " over ")))
	case ruling.Why == runs.WhyExpired:
		return refused(api.Conflict, "question "+cmd.Question+" is not open any more: its time is over")
	case ruling.Why == runs.WhyWithdrawn:
		return refused(api.Conflict, "question "+cmd.Question+" is not open any more: the agent does not wait for it")
	case ruling.Why == runs.WhyUnfit:
		return refused(api.Validation, "this is no answer to question "+cmd.Question)
	case ruling.Why == runs.WhyUnknown:
		return refused(api.NotFound, "the run has no question "+cmd.Question)
	default:
		return refused(api.Unavailable, "the answer was not stored")
	}
	return api.Answered{
		Run: run, State: runs.StateWorking, Question: cmd.Question, Outcome: q.outcome(cmd, ruling), Option: ruling.Option,
		By: ruling.By, Via: ruling.Via, Delivered: ruling.Delivered,
	}, nil
}

// outcome is what an answer says; "" if it is not known any more.
func (q *request) outcome(cmd runs.Command, ruling runs.Ruling) string {
	switch {
	case ruling.Option == "":
		return "cancelled"
	case q == nil:
		return ""
	case q.Kind == api.KindForm && ruling.Option == runs.Accept:
		return "submitted"
	case q.Kind == api.KindForm:
		return "declined"
	case q.denies(ruling.Option):
		return "deny"
	}
	return "allow"
}
