package normalizer

import (
	"strings"

	"github.com/linesman/linesman/bounds"
)

// finalText is the final text of a run so far, or a draft of it.
type finalText struct {
	// Text is its beginning: more than a completion can have, if it is longer than that.
	Text  *string `json:"final,omitempty"`
	Bytes int64   `json:"final_bytes,omitempty"` // of the whole text
	Draft bool    `json:"draft,omitempty"`       // no line has confirmed it

	grown []byte // Text and more, if it is not nil: parts are added without copying all
}

// maxKept is the maximum length of the kept beginning: more than
// [bounds.MaxFinalText] even where a cut shortens it.
const maxKept = bounds.MaxFinalText + 8

func (t *finalText) apply(step finalStep, text string) {
	switch step {
	case setFinal, setDraft:
		*t = finalText{Text: beginning(text), Bytes: int64(len(text)), Draft: step == setDraft}
	case addDraft:
		t.add(text)
		t.Bytes += int64(len(text))
		t.Draft = true
	case confirmDraft:
		t.Draft = false
	case dropFinal:
		*t = finalText{}
	}
}

func (t *finalText) add(text string) {
	if t.grown == nil {
		if t.Text == nil {
			t.Text = new(string)
		}
		t.grown = append(make([]byte, 0, 2*len(*t.Text)+len(text)), *t.Text...)
	}
	if int64(len(t.grown)) != t.Bytes { // its end is missing
		return
	}
	if room := maxKept - len(t.grown); len(text) > room {
		n := bounds.Cut(text, room)
		if n > room { // no code point fits
			return
		}
		text = text[:n]
	}
	t.grown = append(t.grown, text...)
}

// whole makes Text complete.
func (t *finalText) whole() *string {
	if t.grown != nil {
		text := string(t.grown)
		t.Text, t.grown = &text, nil
	}
	return t.Text
}

// beginning returns the part of text that is kept. It does not keep the memory of a
// longer text.
func beginning(text string) *string {
	if len(text) > maxKept {
		text = strings.Clone(text[:bounds.Cut(text, maxKept)])
	}
	return &text
}

// maxSecret is the maximum length of a secret that is not shown in part where the kept text ends.
const maxSecret = 8 << 10

// withoutLastWord returns text up to its last blank, or to the last maxSecret bytes if there is none in these.
func withoutLastWord(text string) string {
	from := bounds.Cut(text, max(len(text)-maxSecret, 0))
	return text[:from+strings.LastIndexAny(text[from:], " \t\r\n")+1]
}

// published returns the kept text if it is confirmed, else nil.
func (t *finalText) published() *string {
	if t.Draft {
		return nil
	}
	return t.whole()
}
