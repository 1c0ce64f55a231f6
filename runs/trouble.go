package runs

import (
	"bytes"
	"slices"
	"strconv"
	"strings"
	"unicode"
	"unicode/utf8"
)

// Limits of what a record tells of a failure.
const (
	MaxErrorMessage = 1000 // bytes
	MaxSuggestions  = 3
	maxErrorRead    = 4096 // bytes of a message that are looked at
	maxMessageJSON  = 1200 // bytes of JSON of the message
	maxErrorLine    = 300  // characters
	maxErrorType    = 80   // bytes
	maxLineJSON     = 600  // bytes of JSON of such a line
)

// ErrorSource says where a line found an error message. A greater one speaks
// with more authority about why the run failed.
type ErrorSource uint8

// The sources of error messages.
const (
	ErrorNotice ErrorSource = iota // an item, before any turn: deprecated settings and the like
	ErrorItem                      // an item of a turn
	ErrorTop                       // a line of its own; the agent may go on after it
	ErrorTurn                      // the end of a turn that failed
)

// Trouble is what goes wrong in a run, gathered as it goes: whether it
// mattered is only known at its end.
type Trouble struct {
	Message string      `json:"message,omitempty"` // redacted
	Source  ErrorSource `json:"source,omitempty"`  // of the message

	// Of commands that failed, the newest first.
	Line      string     `json:"line,omitempty"` // redacted
	ErrorType string     `json:"error_type,omitempty"`
	Locations []Location `json:"locations,omitempty"`
}

// ErrorContext is why a run failed, as far as its output tells. The lists are
// never nil.
type ErrorContext struct {
	Message     string     `json:"error_message"` // at most MaxErrorMessage bytes, redacted
	Type        string     `json:"error_type,omitempty"`
	FailedFiles []string   `json:"failed_files"`    // of the locations
	Locations   []Location `json:"error_locations"` // at most MaxLocations
	Suggestions []string   `json:"suggestions"`     // at most MaxSuggestions
}

func (r *Record) trouble() *Trouble {
	if r.Trouble == nil {
		r.Trouble = new(Trouble)
	}
	return r.Trouble
}

// complain folds what a line says of errors. A turn that completes has
// overcome what was said before.
func (r *Record) complain(f *Facts) {
	if f.Turn == TurnCompleted && r.Trouble != nil {
		r.Trouble.Message, r.Trouble.Source = "", ErrorNotice
		if t := r.Trouble; t.Line == "" && t.ErrorType == "" && t.Locations == nil {
			r.Trouble = nil
		}
	}
	if f.Error == "" {
		return
	}
	source := f.ErrorSource
	if source == ErrorItem && r.Steps.Turns == 0 {
		source = ErrorNotice
	}
	if r.Trouble == nil || r.Trouble.Message == "" || source >= r.Trouble.Source {
		message := strings.TrimSpace(strings.Map(shown, Redact(f.Error[:border(f.Error, maxErrorRead)])))
		if message == "" {
			return
		}
		if len(message) > MaxErrorMessage {
			message = message[:border(message, MaxErrorMessage-len("…"))] + "…"
		}
		t := r.trouble()
		t.Message, t.Source = fit(message, maxMessageJSON), source
	}
}

// shown drops control characters.
func shown(r rune) rune {
	if unicode.IsControl(r) && r != '\n' && r != '\t' {
		return -1
	}
	return r
}

// command folds what the output of a command tells.
func (r *Record) command(f *Findings) {
	if f.Tests != nil {
		tests := *f.Tests
		r.Tests = &tests
	}
	if f.LinesChanged != nil {
		n := *f.LinesChanged
		r.files().LinesChanged = &n
	}
	if !f.Failed {
		return
	}
	t := r.trouble()
	t.Line, t.ErrorType = fit(f.Line, maxLineJSON), f.ErrorType
	older := t.Locations
	t.Locations = nil
	for _, l := range slices.Concat(f.Locations, older) {
		t.Locations = addLocation(t.Locations, l)
	}
}

// ErrorContext says why the run failed or ran out of time; nil in any other state.
func (r *Record) ErrorContext() *ErrorContext {
	if r.State != StateFailed && r.State != StateTimeout {
		return nil
	}
	var t Trouble
	if r.Trouble != nil {
		t = *r.Trouble
	}
	c := &ErrorContext{Message: t.Message, FailedFiles: []string{}, Locations: []Location{}, Suggestions: []string{}}
	if c.Message == "" || t.Source == ErrorNotice && t.Line != "" {
		c.Message = t.Line
	}
	c.Type = errorType([]byte(c.Message))
	if c.Type == "" && (c.Message == "" || c.Message == t.Line) {
		c.Type = t.ErrorType
	}
	if c.Message == "" {
		c.Message = r.why()
	}
	for _, l := range t.Locations {
		c.Locations = append(c.Locations, l)
		if !slices.Contains(c.FailedFiles, l.File) {
			c.FailedFiles = append(c.FailedFiles, l.File)
		}
	}
	c.suggest(r)
	return c
}

// why says in words for what reason the run ended as it did.
func (r *Record) why() string {
	switch r.Reason {
	case string(ReasonSpawn):
		spawn := ""
		if r.Exit != nil {
			spawn = r.Exit.Spawn
		}
		switch spawn {
		case SpawnNotFound:
			return "the agent's program was not found"
		case SpawnNotExecutable:
			return "the agent's program cannot be executed"
		case SpawnRefused:
			return "the worker's rules do not allow the run"
		case SpawnNoDir:
			return "the working directory does not exist on the worker's machine, or is outside of the directories of its setting work.roots"
		}
		return "the agent could not be started"
	case string(ReasonLost):
		return "nobody knows how the agent ended"
	case string(ReasonSpool):
		return "the agent's output passed its limit"
	case NeedsAgent:
		return "the program waits for an agent's answer, to be started again with it"
	case string(ReasonIdle):
		return "the agent was silent for longer than the idle limit"
	case string(ReasonHard):
		return "the run took longer than the hard limit"
	case "turn failed":
		return "the agent's turn failed"
	case "silent":
		return "the agent printed nothing"
	case "no terminal event":
		return "the output ended before the end of a turn"
	}
	_, how, _ := strings.Cut(r.Outcome(), " (")
	return "the agent ended with " + strings.TrimSuffix(how, ")")
}

// suggest adds what may help, the most certain first.
func (c *ErrorContext) suggest(r *Record) {
	add := func(when bool, s string) {
		if when && len(c.Suggestions) < MaxSuggestions && !slices.Contains(c.Suggestions, s) {
			c.Suggestions = append(c.Suggestions, s)
		}
	}
	refused := ""
	if r.Reason == string(ReasonSpawn) && r.Exit != nil && (r.Exit.Spawn == SpawnNoDir || r.Exit.Spawn == SpawnRefused) {
		refused = r.Exit.Spawn
	}
	add(r.State == StateTimeout, "Split the task into smaller ones")
	add(r.Reason == string(ReasonIdle), "Raise the idle limit if a command of the task is silent for long")
	add(r.Reason == string(ReasonHard), "Raise the hard limit of the run")
	add(refused == SpawnNoDir, "Name another directory, or add it to work.roots of the worker; `linesman doctor` there shows which are allowed, and its log why")
	add(refused == SpawnRefused, "Look at the worker's log, which says what it refused")
	add(r.Reason == string(ReasonSpawn) && refused == "", "Check that the agent is installed and that the working directory exists")
	add(r.Reason == string(ReasonSpool), "Keep large outputs in files, and print their end only")

	said := func(words ...string) bool {
		return slices.ContainsFunc(words, func(word string) bool { return strings.Contains(c.Message, word) })
	}
	add(said("401", "Unauthorized", "API key", "Not signed in", "log in", "login"), "Sign the agent in, or check its API key")
	add(said("429", "ate limit", "Too Many Requests", "quota"), "Wait until the rate limit allows more requests")
	add(said("ECONNREFUSED", "ENOTFOUND", "onnection refused", "waiting for network", "dns error"), "Check the network connection")

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
}

// errorMarks say what went wrong; weakMarks say that something did.
var (
	errorMarks = newSieve(false, "rror: ", "rror[", "rror [", "xception: ", "panic: ", "panicked at", "fatal: ",
		"command not found", "No such file or directory", "ermission denied")
	weakMarks = newSieve(false, "Error", "Exception", "--- FAIL", "FAIL", "ailed: ", "✗ ", "✕ ", "✖ ", "error", ": not found")
)

// errorLine is the first line of text that says what went wrong.
func errorLine(text []byte) []byte {
	first := index(errorMarks, text)
	if first < 0 {
		first = index(weakMarks, text)
	}
	if first < 0 {
		return nil
	}
	start := bytes.LastIndexByte(text[:first], '\n') + 1
	end := len(text)
	if i := bytes.IndexByte(text[first:], '\n'); i >= 0 {
		end = first + i
	}
	return trim(text[max(start, first-200):end])
}

// errorType is the first name of an error that text has, such as TypeError.
func errorType(text []byte) string {
	best, name := len(text), ""
	for _, word := range []string{"Error", "Exception"} {
		for from := 0; from < best; {
			i := bytes.Index(text[from:best], []byte(word))
			if i < 0 {
				break
			}
			i += from
			from = i + len(word)
			start := i
			for start > 0 && i-start < maxErrorType && letter(text[start-1]) {
				start--
			}
			if start == i || from < len(text) && letter(text[from]) || from-start > maxErrorType {
				continue
			}
			best, name = i, string(text[start:from])
		}
	}
	return name
}

// border is the last place at or before n where s can be cut.
func border(s string, n int) int {
	if n >= len(s) {
		return len(s)
	}
	for n > 0 && !utf8.RuneStart(s[n]) {
		n--
	}
	return n
}
