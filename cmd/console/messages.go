package console

import (
	"fmt"
	"io"
	"strings"

	"github.com/linesman/linesman/api"
)

// Sent is what became of a message, or of another request about a live run, in one line.
func Sent(s api.Sent) string {
	words := []string{s.Run, string(s.State)}
	switch {
	case s.Waits:
		words = append(words, "message "+s.Message+" waits")
	case s.Message != "":
		words = append(words, fmt.Sprintf("message %s is turn %d", s.Message, s.Turn))
	}
	switch {
	case s.Held:
		words = append(words, fmt.Sprintf("%d held", s.Waiting))
	case s.Waiting > 0:
		words = append(words, fmt.Sprintf("%d waiting", s.Waiting))
	}
	return strings.Join(words, " · ")
}

// Waits is the text of a message that waits, or how long it is if it was left out.
func Waits(m api.Message) string {
	if m.Bytes > 0 {
		return fmt.Sprintf("(%d bytes)", m.Bytes)
	}
	return m.Text
}

// Messages prints the messages that wait.
func (r *Renderer) Messages(all api.Messages) error {
	var b strings.Builder
	for i, m := range all.Messages {
		if i > 0 {
			b.WriteByte('\n')
		}
		facts := []string{Word(m.Message), "by " + Safe(m.By)}
		if all.Held {
			facts = append(facts, "held")
		}
		r.row(&b, bold, "── ", strings.Join(facts, " · "))
		r.quote(&b, Waits(m))
	}
	_, err := io.WriteString(r.out, b.String())
	return err
}
