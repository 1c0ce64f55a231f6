package runs

import (
	"bytes"
	"cmp"
	"slices"
	"strconv"
	"strings"
	"unicode"

	"github.com/linesman/linesman/bounds"
)

// Limits of the error context in a record.
const (
	maxErrorMessage = 1000 // bytes
	maxSuggestions  = 3
	maxErrorRead    = 4096 // bytes of a message that are read
	maxMessageJSON  = 1200 // bytes of JSON of the message
	maxErrorLine    = 300  // characters
	maxErrorType    = 80   // bytes
	maxLineJSON     = 600  // bytes of JSON of an error line
)

// ErrorSource is the source of an error message. A message from a source with a
// greater value is more likely to be the reason of the failure.
type ErrorSource uint8

// The sources of error messages.
const (
	errorNotice ErrorSource = iota // an item before the first turn, such as a deprecation notice
	ErrorItem                      // an item of a turn
	ErrorTop                       // a separate error line; the agent may continue after it
	ErrorTurn                      // the end of a failed turn
)

// diagnostics collects the errors in the output of a run. Whether they are the
// reason of a failure is only known at the end of the run.
type diagnostics struct {
	Message string      `json:"message,omitempty"` // redacted
	Source  ErrorSource `json:"source,omitempty"`  // source of Message

	// From failed commands, the newest first.
	Line      string     `json:"line,omitempty"` // redacted
	ErrorType string     `json:"error_type,omitempty"`
	Locations []Location `json:"locations,omitempty"`
}

// ErrorContext describes the failure of a run, derived from its output. The lists
// are never nil.
type ErrorContext struct {
	Message     string     `json:"error_message"` // at most maxErrorMessage bytes, redacted
	Type        string     `json:"error_type,omitempty"`
	FailedFiles []string   `json:"failed_files"`    // files of the locations
	Locations   []Location `json:"error_locations"` // at most maxLocations
	Suggestions []string   `json:"suggestions"`     // at most maxSuggestions
}

func (r *Record) diagnostics() *diagnostics {
	if r.Diagnostics == nil {
		r.Diagnostics = new(diagnostics)
	}
	return r.Diagnostics
}

// foldError folds the error message of a line. A completed turn discards earlier
// messages.
func (r *Record) foldError(f *Facts) {
	if d := r.Diagnostics; f.Turn == TurnCompleted && d != nil {
		d.Message, d.Source = "", errorNotice
		r.DropEmptyDiagnostics()
	}
	r.Error(f.Error, f.ErrorSource)
}

// DropEmptyDiagnostics drops diagnostics that say nothing, as at the end of a completed turn.
func (r *Record) DropEmptyDiagnostics() {
	d := r.Diagnostics
	if d != nil && d.Message == "" && d.Line == "" && d.ErrorType == "" && d.Locations == nil {
		r.Diagnostics = nil
	}
}

// Error folds an error message, like [Record.Line] with these facts.
func (r *Record) Error(text string, source ErrorSource) {
	if text == "" {
		return
	}
	if source == ErrorItem && r.Steps.Turns == 0 {
		source = errorNotice
	}
	if d := r.Diagnostics; d == nil || d.Message == "" || source >= d.Source {
		message := Redact(text[:bounds.Cut(text, maxErrorRead)])
		message = strings.TrimSpace(strings.Map(dropControl, message))
		if message == "" {
			return
		}
		if len(message) > maxErrorMessage {
			message = message[:bounds.Cut(message, maxErrorMessage-len("…"))] + "…"
		}
		d = r.diagnostics()
		d.Message, d.Source = truncateJSON(message, maxMessageJSON), source
	}
}

// dropControl drops control characters except newline and tab.
func dropControl(r rune) rune {
	if unicode.IsControl(r) && r != '\n' && r != '\t' {
		return -1
	}
	return r
}

// Command folds the findings in the output of a command, like [Record.Line] with these facts.
func (r *Record) Command(f *Findings) {
	if f.Tests != nil {
		r.Tests = new(*f.Tests)
	}
	if f.LinesChanged != nil {
		r.files().LinesChanged = new(*f.LinesChanged)
	}
	if !f.Failed {
		return
	}
	d := r.diagnostics()
	d.Line, d.ErrorType = truncateJSON(f.Line, maxLineJSON), f.ErrorType
	older := d.Locations
	d.Locations = nil
	for _, l := range slices.Concat(f.Locations, older) {
		d.Locations = addLocation(d.Locations, l)
	}
}

// ErrorContext describes the failure or the timeout of the run. It is nil in any
// other state.
func (r *Record) ErrorContext() *ErrorContext {
	if r.State != StateFailed && r.State != StateTimeout {
		return nil
	}
	var d diagnostics
	if r.Diagnostics != nil {
		d = *r.Diagnostics
	}
	c := &ErrorContext{Message: d.Message, FailedFiles: []string{}, Locations: []Location{}, Suggestions: []string{}}
	if c.Message == "" || d.Source == errorNotice && d.Line != "" {
		c.Message = d.Line
	}
	c.Type = errorType([]byte(c.Message))
	if c.Type == "" && (c.Message == "" || c.Message == d.Line) {
		c.Type = d.ErrorType
	}
	if c.Message == "" {
		c.Message = r.reasonText()
	}
	for _, l := range d.Locations {
		c.Locations = append(c.Locations, l)
		if !slices.Contains(c.FailedFiles, l.File) {
			c.FailedFiles = append(c.FailedFiles, l.File)
		}
	}
	c.suggest(r)
	if r.Withheld != nil && (c.mentionsLogin() || r.unserved()) {
		c.Message += "; " + r.Withheld.String()
	}
	return c
}

// NoSession is the text about a thread to resume of which the agent has no session. It is used for
// nothing else.
const NoSession = "session not found"

// mentionsLogin reports whether the failure is one of credentials.
func (c *ErrorContext) mentionsLogin() bool {
	return c.mentions("401", "Unauthorized", "API key", "API_KEY", "ot signed in", "ot logged in", "log in", "login")
}

func (c *ErrorContext) mentions(words ...string) bool {
	return slices.ContainsFunc(words, func(word string) bool { return strings.Contains(c.Message, word) })
}

// unserved reports whether an agent that was started ended without an answer of a model.
func (r *Record) unserved() bool {
	return r.Reason != string(ReasonSpawn) && r.Usage == nil && r.Own == nil && r.All == nil
}

// spawnTexts and reasonTexts describe the reasons of final states, for people.
var (
	spawnTexts = map[string]string{
		SpawnNotFound:      "the agent's program was not found",
		SpawnNotExecutable: "the agent's program cannot be executed",
		SpawnRefused:       "the worker's rules do not allow the run",
		SpawnNoSession:     NoSession,
		SpawnNoDir: "the working directory does not exist on the worker's machine, or is outside of the directories " +
			"of its setting work.roots",
	}
	reasonTexts = map[string]string{
		string(ReasonSpawn): "the agent could not be started",
		string(ReasonLost):  "it is not known how the agent ended",
		string(ReasonSpool): "the agent's output passed its limit",
		needsAgent:          "the program waits for an agent's answer, to be started again with it",
		string(ReasonIdle):  "the agent was silent for longer than the idle limit",
		string(ReasonHard):  "the run took longer than the hard limit",
		reasonOption:        OptionRefused,
		"turn failed":       "the agent's turn failed",
		"silent":            "the agent printed nothing",
		"no terminal event": "the output ended before the end of a turn",
	}
)

// Why describes the reason of the final state, for people. It may name directories.
func (r *Record) Why() string { return r.reasonText() }

// reasonText describes the reason of the final state, for people.
func (r *Record) reasonText() string {
	text := reasonTexts[r.Reason]
	if r.Reason == string(ReasonSpawn) && r.Exit != nil {
		text = cmp.Or(r.Exit.Why, spawnTexts[r.Exit.Spawn], text)
		if r.Exit.Spawn == SpawnNotFound && r.Live != nil {
			text = "the program that speaks the Agent Client Protocol for the agent was not found"
		}
	}
	_, reason, _ := strings.Cut(r.Outcome(), " (")
	return cmp.Or(text, "the agent ended with "+strings.TrimSuffix(reason, ")"))
}

// suggest adds suggestions, the most likely first.
func (c *ErrorContext) suggest(r *Record) {
	add := func(when bool, s string) {
		if when && len(c.Suggestions) < maxSuggestions && !slices.Contains(c.Suggestions, s) {
			c.Suggestions = append(c.Suggestions, s)
		}
	}
	refused := ""
	if r.Reason == string(ReasonSpawn) && r.Exit != nil &&
		(r.Exit.Spawn == SpawnNoDir || r.Exit.Spawn == SpawnRefused || r.Exit.Spawn == SpawnNoSession) {
		refused = r.Exit.Spawn
	}
	add(r.State == StateTimeout, "Split the task into smaller ones")
	add(r.Reason == string(ReasonIdle), "Raise the idle limit if a command of the task is silent for long")
	add(r.Reason == string(ReasonHard), "Raise the hard limit of the run")
	add(refused == SpawnNoDir, "Name another directory, or add it to work.roots of the worker; `linesman doctor` "+
		"there shows which are allowed, and its log why")
	add(refused == SpawnRefused && r.Exit.Why == "", "Look at the worker's log, which says what it refused")
	add(refused == SpawnNoSession, "Start a new thread, or resume it on the machine that has its session")
	add(r.Reason == string(ReasonSpawn) && refused == "" && r.Live != nil && r.Exit.Spawn == SpawnNotFound,
		"Install it on the worker's machine: `linesman agents` there names the command")
	add(r.Reason == string(ReasonSpawn) && refused == "" && r.Live == nil,
		"Check that the agent is installed and that the working directory exists")
	add(r.Reason == string(ReasonSpool), "Keep large outputs in files, and print their end only")

	add(c.mentionsLogin(), "Sign the agent in, or check its API key")
	spent := c.mentions("usage limit", "hit your limit", "limit reached", "credit balance", "insufficient_quota")
	add(spent, "Run it again when the limit is reset, or with another account or model")
	add(!spent && c.mentions("429", "ate limit", "Too Many Requests", "quota"),
		"Wait until the rate limit allows more requests")
	add(c.mentions("model", "Model") && c.mentions("not exist", "not found", "not supported", "not have access",
		"nvalid model", "nknown model"), "Name another model, one that the account of the agent has")
	add(c.mentions("ECONNREFUSED", "ENOTFOUND", "onnection refused", "waiting for network", "dns error"),
		"Check the network connection")

	add(c.mentions("context window", "ontext length", "rompt is too long"), "Start a new thread, with a smaller task")
	if len(c.Locations) > 0 {
		add(true, "Start investigation at "+c.Locations[0].File+":"+strconv.Itoa(c.Locations[0].Line))
	}
	add(r.Tests != nil && r.Tests.Failed > 0, "Run failing tests individually to isolate issues")
	switch c.Type {
	case "TypeError", "AttributeError", "NullPointerException":
		add(true, "Check variable types and null/undefined values")
	case "SyntaxError", "IndentationError":
		add(true, "Check the syntax of the files that were changed last")
	case "ReferenceError", "NameError":
		add(true, "Check that all names are defined and imported")
	}
	add(len(c.FailedFiles) > 1, "Check the failed files: "+strings.Join(c.FailedFiles, ", "))
	if r.Exit != nil && r.Exit.Code != nil && r.Reason == "exit status" {
		add(*r.Exit.Code == 1, "Read the end of the output for the cause of the failure")
		add(*r.Exit.Code > 1, "Check the command line and the settings of the agent")
	}
	add(len(c.Suggestions) == 0, cmp.Or(remedies[r.Reason], "Read the end of the output for the cause of the failure"))
}

// remedies are what to try where nothing else is known, by the reason of the final state.
var remedies = map[string]string{
	string(ReasonLost):  "Run it again; the log of the worker says why it ended",
	needsAgent:          "Answer its question, and start the program again",
	reasonOption:        "Ask without the option, or update the agent on the worker's machine",
	"signal":            "Find out what ended it: the system does where memory is short",
	"silent":            "Run the agent by hand in the same directory, to see what it needs",
	"no terminal event": "Run it again, or continue its thread: it was cut off in the middle of a turn",
}

// errorMarks indicate an error message; weakMarks indicate that there was an error.
var (
	errorMarks = newMatcher(false, "rror: ", "rror[", "rror [", "xception: ", "panic: ", "panicked at", "fatal: ",
		"command not found", "No such file or directory", "ermission denied")
	weakMarks = newMatcher(false,
		"Error", "Exception", "--- FAIL", "FAIL", "ailed: ", "✗ ", "✕ ", "✖ ", "error", ": not found")
)

// errorMark returns the offset of the first mark of an error in text, or -1.
func errorMark[T string | []byte](text T) int {
	if first := index(errorMarks, text); first >= 0 {
		return first
	}
	return index(weakMarks, text)
}

// errorLine returns the first line of text with an error message, redacted, or "". Of a long one it has what is
// around the mark.
func errorLine(text []byte) string {
	const before = 200
	first := errorMark(text)
	if first < 0 {
		return ""
	}
	start := bytes.LastIndexByte(text[:first], '\n') + 1
	end := len(text)
	if i := bytes.IndexByte(text[first:], '\n'); i >= 0 {
		end = first + i
	}
	if first-start <= before && end-start <= 1<<10 {
		return oneLine(string(text[start:end]), maxErrorLine)
	}
	// A secret is not recognized without its beginning: what may be the end of one that begins further in front is not
	// shown.
	from := max(start, first-before-redactMargin)
	line := Redact(string(text[from:min(end, first+redactMargin)]))
	mark := errorMark(line)
	if from > start && mark < redactMargin/2 {
		return ""
	}
	return oneLine(line[max(mark-before, 0):], maxErrorLine)
}

// errorType returns the first name of an error type in text, such as TypeError.
func errorType(text []byte) string {
	first, name := len(text), ""
	for _, word := range []string{"Error", "Exception"} {
		for from := 0; from < first; {
			i := bytes.Index(text[from:first], []byte(word))
			if i < 0 {
				break
			}
			i += from
			from = i + len(word)
			start := i
			for start > 0 && i-start < maxErrorType && isWordChar(text[start-1]) {
				start--
			}
			if start == i || from < len(text) && isWordChar(text[from]) || from-start > maxErrorType {
				continue
			}
			first, name = i, string(text[start:from])
		}
	}
	return name
}
