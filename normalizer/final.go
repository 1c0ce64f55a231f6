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
}

// maxKept is the maximum length of the kept beginning: more than
// [bounds.MaxFinalText] even where a cut shortens it.
const maxKept = bounds.MaxFinalText + 8

func (t *finalText) apply(step finalStep, text string) {
	switch step {
	case setFinal, setDraft:
		*t = finalText{beginning(text), int64(len(text)), step == setDraft}
	case addDraft:
		if t.Text == nil {
			t.Text = new(string)
		}
		if whole := int64(len(*t.Text)) == t.Bytes; whole {
			t.Text = beginning(*t.Text + text)
		}
		t.Bytes += int64(len(text))
		t.Draft = true
	case confirmDraft:
		t.Draft = false
	case dropFinal:
		*t = finalText{}
	}
}

// beginning returns the part of text that is kept. It does not keep the memory of a
// longer text.
func beginning(text string) *string {
	if len(text) > maxKept {
		text = strings.Clone(text[:bounds.Cut(text, maxKept)])
	}
	return &text
}

// published returns the kept text if it is confirmed, else nil.
func (t *finalText) published() *string {
	if t.Draft {
		return nil
	}
	return t.Text
}
