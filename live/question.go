package live

import (
	"cmp"
	"encoding/json"
	"path"
	"slices"
	"strconv"
	"strings"

	"github.com/linesman/linesman/agent/acp"
	"github.com/linesman/linesman/runs"
)

// Question is a request of the agent that waits for a decision.
type Question struct {
	ID      string       `json:"id"`                // q1, q2, … over the run
	Kind    string       `json:"kind"`              // [acp.Permission] or [acp.Form]
	Tool    string       `json:"tool,omitempty"`    // kind of the tool as the protocol names it; "": another, or not told
	Options []acp.Option `json:"options,omitempty"` // none: more or longer than can be kept, it can only be closed
	Call    string       `json:"call,omitempty"`    // id of the tool call; "": not told, or longer than acp.MaxOption
	// Paths are the files of the call, absolute, as told: links are not followed, and there may be `..`. If Unknown is
	// true there are others.
	Paths   []string `json:"paths,omitempty"`
	Unknown bool     `json:"unknown,omitempty"`
	// Kindless says that neither the request nor its call tells the kind of the tool.
	Kindless bool `json:"kindless,omitempty"`
	// Bare says that an edit, or a move, tells fewer diffs than files, or a move none: one may go to where nothing tells.
	Bare    bool   `json:"bare,omitempty"`
	Command string `json:"command,omitempty"` // that the tool is to run; "": not told, or Unread
	Unread  bool   `json:"unread,omitempty"`  // the command is too long for rules, or no text
	Turn    int    `json:"turn"`
	People  bool   `json:"people,omitempty"` // they are asked
	Due     int64  `json:"due,omitempty"`    // until then, Unix milliseconds; 0: for ever

	// The line of the request: sequence of the entry that has its first byte, that byte's offset in the output,
	// and its length in bytes, without the newline.
	Seq    uint64 `json:"seq"`
	Offset int64  `json:"offset"`
	Length int    `json:"length"`
}

// question is one that is open.
type question struct {
	Question
	Request string `json:"request"` // id as JSON
}

// maxOptions is how long the options of a question may be as JSON, in bytes.
const maxOptions = 1 << 10

// Open returns the open questions, oldest first, at most runs.MaxQuestions.
func (c *Conversation) Open() []Question {
	all := make([]Question, len(c.s.Open))
	for i, q := range c.s.Open {
		all[i] = q.Question
		all[i].Options, all[i].Paths = slices.Clone(q.Options), slices.Clone(q.Paths)
	}
	return all
}

// request folds a request of the agent, which has a number. Each is answered once: at once, or when it is decided.
func (c *Conversation) request(m *acp.Message, asked *acp.Question, at place, length int) {
	s := &c.s
	s.Asked++
	id := m.RequestID()
	switch {
	case s.Asked > 2*maxAsked || s.Asked > maxAsked && !s.Running:
		c.giveUp("the agent asks without end")
		return
	case c.twice(id):
	case asked.Kind == "" && m.Method.Equal("elicitation/create"):
		c.answer(item{Do: doRefuse, Ref: id, Code: invalidParams})
	case asked.Kind == "":
		c.answer(item{Do: doRefuse, Ref: id, Code: methodNotFound})
	default:
		c.ask(asked, id, at, length)
	}
	if s.Asked > maxAsked {
		c.stop(outcome{State: TurnFailed, Why: "the agent asks without end"})
	}
}

// ask opens a question, or rejects it at once: outside of a turn, after a cancel, and if it is too long or too many
// are open.
func (c *Conversation) ask(asked *acp.Question, id string, at place, length int) {
	s := &c.s
	q := question{Request: id, Question: Question{
		ID: "q" + strconv.Itoa(s.Numbered), Kind: asked.Kind, Command: asked.Command,
		Unread: asked.Unread, Turn: s.Turn, Seq: at.seq, Offset: at.offset, Length: length,
	}}
	if q.Tool = known(tools, asked.Tool); asked.Tool == "" { // some agents tell it only of the call
		q.Tool = c.called(asked.Call.Text()).Tool
		q.Kindless = q.Tool == ""
	}
	c.tellFiles(&q.Question, asked)
	if asked.Call.IsString() && asked.Call.Len <= acp.MaxOption {
		q.Call = asked.Call.Text()
	}
	for _, o := range asked.Options {
		q.Options = append(q.Options, acp.Option{ID: o.ID, Kind: known(optionKinds, o.Kind)})
	}
	if len(runs.Encode(q.Options)) > maxOptions {
		q.Options = nil
	}
	switch {
	case !s.Running || s.Cancelled || length == 0:
		c.decided(&q, "")
	case len(s.Open) >= runs.MaxQuestions:
		c.decided(&q, optionOf(&q.Question, "reject_once", false))
	default:
		s.Open = append(s.Open, q)
	}
}

// The values of the protocol that are kept of a question.
var (
	tools       = []string{"read", "edit", "delete", "move", "search", "execute", "think", "fetch", "switch_mode"}
	optionKinds = []string{"allow_once", "allow_always", "reject_once", "reject_always"}
)

// known returns a value that is in a list, "" for another one.
func known(list []string, value string) string {
	if !slices.Contains(list, value) {
		return ""
	}
	return value
}

// tellFiles sets the files of a question: those of the request, and those that its call changes.
func (c *Conversation) tellFiles(q *Question, asked *acp.Question) {
	files, known := acp.FilesOf(asked.ToolCall), c.called(asked.Call.Text()).Changed
	q.Paths, q.Unknown = c.absolute(files.Paths), !files.Whole
	changed := len(known)
	for _, p := range c.absolute(files.Changed) {
		if !slices.Contains(known, p) {
			changed++
		}
	}
	q.Bare = q.Tool == "move" && changed == 0 || (q.Tool == "edit" || q.Tool == "move") && changed < files.Located
	if len(q.Paths) > 0 { // else nothing tells what it is about
		q.Paths = append(q.Paths, known...)
	}
}

// absolute returns paths, those that are relative as below the directory of the run.
func (c *Conversation) absolute(paths []string) []string {
	for i, p := range paths {
		if !path.IsAbs(p) {
			paths[i] = c.config.Task.Dir + "/" + p
		}
	}
	return paths
}

// twice handles a request whose id is that of another one whose answer the agent does not have: both are rejected
// by one answer, because nobody knows which of them another one would be for.
func (c *Conversation) twice(id string) bool {
	if c.closeQuestion(func(q *question) bool { return q.Request == id }) {
		return true
	}
	for i := range c.s.Due {
		if it := &c.s.Due[i]; it.Ref == id {
			switch {
			case i == 0 && c.s.Part > 0: // it is being sent
			case it.Do == doSelect:
				*it, c.head = item{Do: doWithdraw, Ref: id}, nil
			case it.Do == doForm:
				*it, c.head = item{Do: doForm, Ref: id, Value: "cancel"}, nil
			}
			return true
		}
	}
	return false
}

// closeQuestion closes the open questions for which closed is true, without an option, and reports whether there was
// one.
func (c *Conversation) closeQuestion(closed func(q *question) bool) bool {
	n := len(c.s.Open)
	c.s.Open = slices.DeleteFunc(c.s.Open, func(q question) bool {
		is := closed(&q)
		if is {
			c.decided(&q, "")
		}
		return is
	})
	return len(c.s.Open) < n
}

func (c *Conversation) withdrawAll() { c.closeQuestion(func(*question) bool { return true }) }

// decided makes the answer to a question due: an option; to a form accept, with a content, or decline. Without one
// the question is closed.
func (c *Conversation) decided(q *question, option string, content ...byte) {
	switch {
	case q.Kind == acp.Form:
		c.answer(item{Do: doForm, Ref: q.Request, Value: option, Content: content})
	case option == "":
		c.answer(item{Do: doWithdraw, Ref: q.Request})
	default:
		c.answer(item{Do: doSelect, Ref: q.Request, Value: option})
	}
}

// command folds what somebody asks of the run. One that does not fit here has no effect.
func (c *Conversation) command(body []byte) {
	var cmd runs.Command
	if json.Unmarshal(body, &cmd) != nil || cmd.ID == "" || len(cmd.ID) > runs.MaxCommandID {
		return
	}
	if _, again := c.Obeyed(cmd.ID); again {
		return
	}
	c.remember(&cmd, c.obey(&cmd))
}

func (c *Conversation) obey(cmd *runs.Command) bool {
	s := &c.s
	if len(cmd.By) > runs.MaxBy || len(cmd.Via) > runs.MaxBy {
		return false
	}
	switch cmd.Do {
	case runs.DoAsk:
		i := s.opened(cmd.Question)
		if i < 0 || s.Open[i].People {
			return false
		}
		s.Open[i].People, s.Open[i].Due = true, max(cmd.Due, 0)
		return true
	case runs.DoAnswer:
		i := s.opened(cmd.Question)
		if i < 0 || !s.Open[i].takes(cmd) {
			return false
		}
		q := s.Open[i]
		s.Open = slices.Delete(s.Open, i, i+1)
		c.decided(&q, cmd.Option, cmd.Content...)
		s.keep(decision{
			Question: q.ID, Command: digest(cmd.ID), Option: cmd.Option, Word: q.word(cmd.Option), Content: contentOf(cmd),
			By: cmd.By, Via: cmd.Via,
		})
		return true
	case runs.DoStop:
		return cmd.Turn == s.Turn && !s.Ends && c.begun() && c.stop(outcome{State: turnCancelled})
	case runs.DoSleep:
		return c.Status().Idle && c.sleep()
	case runs.DoLimit:
		o := outcome{State: turnCancelled, Limit: cmd.Rule}
		if s.Turn == 0 {
			o.State, o.Why = NoSession, "the agent was not ready in time"
		}
		return cmd.Turn == s.Turn && c.stop(o)
	case runs.DoEnd:
		if s.Outcome != nil || s.Ends {
			return false
		}
		if c.end(); !s.Running {
			c.finish(outcome{State: cmp.Or(s.Last, turnCancelled)})
		}
		return true
	case runs.DoSet:
		return c.set(cmd)
	case runs.DoSend, runs.DoEdit, runs.DoUnsend, runs.DoRelease:
		if c.refuses(cmd) != "" || !s.Queue.Apply(cmd) {
			return false
		}
		if cmd.Do == runs.DoSend && cmd.When == runs.WhenNow && c.begun() {
			c.stop(outcome{State: turnCancelled})
		}
		return true
	}
	return false
}

// refuses returns why a command for the queue, or one that sets options, has no effect; "": it has.
func (c *Conversation) refuses(cmd *runs.Command) string {
	switch s := &c.s; {
	case s.Outcome != nil || s.Ends || !c.config.Task.Keep:
		return runs.WhyEnds
	case cmd.Do == runs.DoSet:
		return c.refusesOptions(cmd)
	default:
		return s.Queue.Refuses(cmd)
	}
}

// begun reports whether a turn runs that can be cancelled. In a run that goes on afterwards the log has a byte of its
// prompt: else the prompt would never be sent.
func (c *Conversation) begun() bool {
	return c.s.Running && !(c.config.Task.Keep && c.s.Part == 0 && slices.ContainsFunc(c.s.Due, item.prompts))
}

// Queue returns what waits for its turn.
func (c *Conversation) Queue() *runs.Queue { return &c.s.Queue }

// opened returns the index of an open question, or -1.
func (s *state) opened(id string) int {
	return slices.IndexFunc(s.Open, func(q question) bool { return q.ID == id })
}

// takes reports whether a command answers the question as its kind permits.
func (q *Question) takes(cmd *runs.Command) bool {
	switch {
	case len(cmd.By) > runs.MaxBy || len(cmd.Via) > runs.MaxBy:
		return false
	case q.Kind == acp.Form && cmd.Option == runs.Accept:
		return len(cmd.Content) <= runs.MaxContent && len(cmd.Content) > 0 && cmd.Content[0] == '{'
	case cmd.Content != nil:
		return false
	case q.Kind == acp.Form:
		return cmd.Option == "" || cmd.Option == runs.Decline
	}
	return cmd.Option == "" || slices.ContainsFunc(q.Options, func(o acp.Option) bool { return o.ID == cmd.Option })
}

// word returns the word that people may say for an option, "" if there is none: allow or deny for the only one of its
// kind, and for how a question is closed.
func (q *Question) word(option string) string {
	word := ""
	switch {
	case q.Kind == acp.Form:
		word = map[string]string{runs.Decline: "deny", "": "cancel"}[option]
	case option == "":
		if optionOf(q, "reject_once", false) == "" {
			word = "deny"
		}
	case option == optionOf(q, "allow_once", true):
		word = "allow"
	case option == optionOf(q, "reject_once", true):
		word = "deny"
	}
	if slices.ContainsFunc(q.Options, func(o acp.Option) bool { return o.ID == word }) {
		return "" // the id of an option is no word
	}
	return word
}

// decision is how a command decided a question.
type decision struct {
	Question string `json:"question"`
	Command  uint64 `json:"command"`           // digest of its id
	Option   string `json:"option,omitempty"`  // as in the command
	Word     string `json:"word,omitempty"`    // that stands for the option, as the responder reads it
	Content  uint64 `json:"content,omitempty"` // digest of the content
	By       string `json:"by"`
	Via      string `json:"via,omitempty"`
}

func contentOf(cmd *runs.Command) uint64 {
	if cmd.Content == nil {
		return 0
	}
	return digest(string(cmd.Content))
}

// How many decisions are kept, the newest, and their bytes of JSON: some ids of options are mostly escapes.
const (
	maxDecided     = 64
	maxDecidedJSON = 32 << 10
)

// keep keeps a decision.
func (s *state) keep(d decision) {
	s.Decided = append(s.Decided, d)
	s.Decided = s.Decided[max(len(s.Decided)-maxDecided, 0):]
	for len(runs.Encode(s.Decided)) > maxDecidedJSON {
		s.Decided = s.Decided[1:]
	}
}

// Rule returns what becomes of a command at the end of the log. Options that last are refused here, not by the fold: an
// entry of the log has the same effect whatever the setting was, also one of a program that had none. An answer to a
// question that people are not asked learns only what was decided.
func (c *Conversation) Rule(cmd *runs.Command) runs.Ruling {
	ruling := runs.Ruling{Seq: c.s.Seq}
	if cmd.Changes() || cmd.Do == runs.DoStop || cmd.Do == runs.DoEnd {
		return c.ruleOther(cmd, ruling)
	}
	i := slices.IndexFunc(c.s.Decided, func(d decision) bool { return d.Question == cmd.Question })
	_, known := c.Obeyed(cmd.ID)
	switch at := c.s.opened(cmd.Question); {
	case at >= 0 && (!c.s.Open[at].People || cmd.Do != runs.DoAnswer): // not now
	case at >= 0 && !known && cmd.ID != "" && len(cmd.ID) <= runs.MaxCommandID && c.s.Open[at].takes(cmd) &&
		(c.config.Always || !slices.ContainsFunc(c.s.Open[at].Options, func(o acp.Option) bool {
			return o.ID == cmd.Option && o.Lasts()
		})):
		ruling.Open = true
	case at >= 0:
		ruling.Why = runs.WhyUnfit
	case i >= 0:
		d := &c.s.Decided[i]
		ruling.Option, ruling.By, ruling.Via = d.Option, d.By, d.Via
		same := (d.Option == cmd.Option || d.Word == cmd.Option && d.Word != "") && d.Content == contentOf(cmd)
		if ruling.Holds = same || d.Command == digest(cmd.ID); !ruling.Holds {
			ruling.Why = runs.WhyDecided
		}
	case c.asked(cmd.Question):
		ruling.Why = runs.WhyWithdrawn
	default:
		ruling.Why = runs.WhyUnknown
	}
	return ruling
}

// ruleOther is Rule for a command that is no answer.
func (c *Conversation) ruleOther(cmd *runs.Command, ruling runs.Ruling) runs.Ruling {
	s := &c.s
	ruling.Turn = s.Turn
	effect, known := c.Obeyed(cmd.ID)
	switch {
	case cmd.ID == "" || len(cmd.ID) > runs.MaxCommandID || len(cmd.By) > runs.MaxBy || len(cmd.Via) > runs.MaxBy:
		ruling.Why = runs.WhyUnfit
	case known:
		if ruling.Holds, ruling.By, ruling.Via = effect, cmd.By, cmd.Via; !effect {
			ruling.Why = runs.WhyUnfit
		}
	case c.keyTaken(cmd.ID):
		ruling.Why = runs.WhyKey
	case cmd.Changes():
		ruling.Why = c.refuses(cmd)
		ruling.Open = ruling.Why == ""
	case s.Outcome != nil, s.Ends:
		ruling.Holds, ruling.Why = cmd.Do == runs.DoEnd, runs.WhyEnds
	case cmd.Do == runs.DoEnd:
		ruling.Open = true
	default: // stop
		if ruling.Open = c.begun() && cmd.Turn == s.Turn && !s.Cancelled; !ruling.Open {
			ruling.Holds, ruling.Why = s.Cancelled && cmd.Turn == s.Turn, runs.WhySent
		}
	}
	return ruling
}

// asked reports whether the agent has asked a question with an id.
func (c *Conversation) asked(question string) bool {
	n, err := strconv.Atoi(strings.TrimPrefix(question, "q"))
	return err == nil && 0 < n && n <= c.s.Numbered && question == "q"+strconv.Itoa(n)
}

// ofRequest are the bits of a remembered command that tell the requests with one key apart.
const ofRequest = 1<<24 - 2

// remembered returns a digest of the id of a command without its lowest bit, and that of the key in the id:
// see [runs.BehindKey]. Without a request in the id they are the same.
func remembered(id string) (entry, key uint64) {
	name, request, has := strings.Cut(id, runs.BehindKey)
	if key = digest(name) &^ 1; !has {
		return key, key
	}
	return key&^ofRequest | digest(request)&ofRequest, key
}

// remember keeps that a command had an effect, or none: 63 bits of its digest, and one for that.
func (c *Conversation) remember(cmd *runs.Command, effect bool) {
	entry, _ := remembered(cmd.ID)
	if effect {
		entry |= 1
	}
	last, most := &c.s.Commands, maxCommands
	if cmd.Automatic() { // else many questions would push out the commands of callers
		last, most = &c.s.Automatic, maxAutomatic
	}
	*last = append(*last, entry)
	*last = (*last)[max(len(*last)-most, 0):]
}

// Obeyed reports whether a command had an effect at its place in the log, and whether it is known: the last 256 of
// callers are, and the last 64 others.
func (c *Conversation) Obeyed(id string) (effect, known bool) {
	sought, key := remembered(id)
	for _, last := range [][]uint64{c.s.Commands, c.s.Automatic} {
		i := slices.IndexFunc(last, func(entry uint64) bool {
			return entry&^1 == sought || entry&^1 == key // of a version whose ids have no request
		})
		if i >= 0 {
			return last[i]&1 == 1, true
		}
	}
	return false, false
}

// keyTaken reports whether another command had the key of this one.
func (c *Conversation) keyTaken(id string) bool {
	_, known := c.Obeyed(id)
	_, key := remembered(id)
	return !known && strings.Contains(id, runs.BehindKey) && slices.ContainsFunc(c.s.Commands, func(entry uint64) bool {
		return entry&^(ofRequest|1) == key&^ofRequest
	})
}
