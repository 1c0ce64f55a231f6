package normalizer

import (
	"slices"

	"github.com/linesman/linesman/normalizer/scan"
	"github.com/linesman/linesman/runs"
)

// Output is the output of a command that ended. The memory is that of the line.
type Output struct {
	First, Last []byte // undecoded text: all of it, or its beginning and its last lines
	Escaped     bool   // the text has escapes
	Odd         bool   // some of them are not canonical, see [scan.Value]
	Failed      bool
	Ended       bool // false: there was no command
	Totals      bool // of a command for which [runs.RunsTests] is true

	found *runs.Findings // nil: nothing, or it does not count
	last  bool           // of a turn that was completed
}

// failure is the error message of a line.
type failure struct {
	text   string
	source runs.ErrorSource
}

// maxOutputs is the number of outputs that are settled together.
const maxOutputs = 256

// settle folds what is left of the lines of an entry into the record. Of what later lines
// replace, only the last one counts and is read: the final text, the activity, and what
// outputs say about tests. Nothing refers to the lines after that.
func (f *Fold) settle() {
	w := f.work
	f.settleFinal()
	if w.doing.Text != "" || w.doing.Rest.Len > 0 {
		f.Record.SetActivity(string(w.doing.append(nil)))
		w.doing = Activity{}
	}
	f.settleFailure()
	if len(w.outputs) > 0 {
		f.settleOutputs()
	}
	for kind, n := range w.counts {
		if n > 0 {
			f.Record.Events[eventKind(kind).Token()] += n
			w.counts[kind] = 0
		}
	}
}

// foldFinal folds what a line does to the final text, but for a final text of its own.
func (f *Fold) foldFinal(out *Out) {
	w := f.work
	switch {
	case out.final == keepFinal:
		return
	case out.final == setFinal && out.value.IsString():
		w.final = out.value
		return
	case out.final == addDraft || out.final == confirmDraft:
		f.settleFinal()
	default:
		w.final = scan.Value{}
	}
	f.state.finalText.apply(out.final, out.text)
	f.setFinal()
}

// foldLater keeps what settle folds, and leaves it out of the facts of the line.
func (f *Fold) foldLater(out *Out) {
	w, facts := f.work, &out.Facts
	if out.Command.Ended {
		w.outputs = append(w.outputs, out.Command)
	}
	if len(w.outputs) == maxOutputs {
		f.settleOutputs()
	}
	f.foldFailure(facts)
	switch {
	case facts.Turn == runs.TurnCompleted || facts.Turn == runs.TurnFailed:
		w.doing = Activity{}
	case out.Activity.Text != "" || out.Activity.Rest.Len > 0:
		w.doing = out.Activity
	case facts.Activity != "":
		w.doing, facts.Activity = Activity{Text: facts.Activity}, ""
	}
}

// foldFailure keeps the error message of a line, as far as it counts more than the one before, and
// what the end of a turn does to it.
func (f *Fold) foldFailure(facts *runs.Facts) {
	w := f.work
	switch {
	case facts.Turn == runs.TurnCompleted: // discards errors
		w.failure = failure{}
		if n := len(w.outputs); n > 0 {
			w.outputs[n-1].last = true
		}
	case facts.Turn != runs.TurnNone:
		f.settleFailure()
	case facts.Error != "":
		if facts.ErrorSource < w.failure.source || !isVisible(facts.Error) {
			f.settleFailure()
		}
		w.failure, facts.Error = failure{facts.Error, facts.ErrorSource}, ""
	}
}

func (f *Fold) settleFailure() {
	if w := f.work; w.failure.text != "" {
		f.Record.Error(w.failure.text, w.failure.source)
		w.failure = failure{}
	}
}

// isVisible reports whether text begins with a character of ASCII that is not a control character
// or a space. Such a message is never empty in the record.
func isVisible(text string) bool { return ' ' < text[0] && text[0] < 0x7f }

func (f *Fold) settleFinal() {
	w := f.work
	if !w.final.IsString() {
		return
	}
	head, _ := w.final.Cut(maxKept)
	text := head.Text()
	f.state.finalText = finalText{Text: &text, Bytes: int64(w.final.Len)}
	w.final = scan.Value{}
	f.setFinal()
}

// setFinal sets the final text of the record.
func (f *Fold) setFinal() {
	f.Record.FinalText, f.Record.FinalTextBytes = nil, 0
	if text, n := f.final(); text != nil {
		f.Record.Final(*text)
		f.Record.FinalTextBytes = n
	}
}

// final returns the beginning of the final text so far, nil if there is none, and the length of the whole. It is
// scrubbed as a whole, too: lines with parts of it may have parts of a secret.
func (f *Fold) final() (text *string, n int64) {
	text, n = f.state.finalText.published(), f.state.Bytes
	if text == nil || f.scrub == nil {
		return text, n
	}
	scrubbed, cut := f.scrub(*text), n > int64(len(*text))
	n += int64(len(scrubbed) - len(*text))
	if cut {
		scrubbed = withoutLastWord(scrubbed) // it can be the beginning of a secret
	}
	return &scrubbed, n
}

// settleOutputs folds the outputs of commands. The newest one is read first: only its tests
// count, and only its error message.
func (f *Fold) settleOutputs() {
	w := f.work
	tests, failed := false, false
	for i := len(w.outputs) - 1; i >= 0; i-- {
		o := &w.outputs[i]
		parts := runs.Parts{
			Failed: o.Failed, Message: o.Failed && !failed, Totals: o.Totals,
			Summaries: !tests || o.Odd || runs.MayHaveDiffStat(o.First) || runs.MayHaveDiffStat(o.Last),
		}
		if parts.Summaries || parts.Failed {
			w.read(o, parts)
		}
		failed = failed || o.Failed
		tests = tests || o.found != nil && o.found.Tests != nil
	}
	for i := range w.outputs {
		if found := w.outputs[i].found; found != nil {
			f.Record.Command(found)
		}
		if w.outputs[i].last {
			f.Record.DropEmptyDiagnostics()
		}
	}
	clear(w.outputs)
	w.outputs = w.outputs[:0]
}

// read reads parts of an output.
func (w *Workspace) read(o *Output, parts runs.Parts) {
	if !parts.Failed && !runs.MayHaveFindings(o.First) && !runs.MayHaveFindings(o.Last) {
		return
	}
	w.text = slices.Grow(w.text[:0], len(o.First)+len(o.Last)+1)
	text := scan.Value{Kind: scan.String, Raw: o.First, Escaped: o.Escaped}.Append(w.text[:0])
	if len(o.Last) > 0 {
		text = append(text, '\n')
		text = scan.Value{Kind: scan.String, Raw: o.Last, Escaped: o.Escaped}.Append(text)
	}
	w.text = text
	found := runs.ReadParts(text, parts)
	if parts.Failed || found.Tests != nil || found.LinesChanged != nil {
		kept := found // a copy, so that found stays on the stack otherwise
		o.found = &kept
	}
}
