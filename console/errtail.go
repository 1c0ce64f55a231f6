package console

import (
	"bytes"
	"fmt"
	"io"
	"strings"
)

// StderrShown is how many bytes of an agent's stderr [StderrTail] shows at most.
const StderrShown = 2 << 10

const stderrLines = 10

// StderrTail prints the last lines of an agent's stderr, of which text is the
// end, or nothing if there is none.
func StderrTail(w io.Writer, text []byte) error {
	text = bytes.TrimSpace(text)
	if len(text) == 0 {
		return nil
	}
	cut := len(text) > StderrShown
	text = text[max(len(text)-StderrShown, 0):]
	lines := strings.Split(strings.ReplaceAll(string(text), "\r\n", "\n"), "\n")
	if cut && len(lines) > 1 {
		lines = lines[1:] // the rest of a line
	}
	lines = lines[max(len(lines)-stderrLines, 0):]
	var b strings.Builder
	b.WriteString("linesman: the end of the agent's stderr:\n")
	for _, line := range lines {
		fmt.Fprintf(&b, "    %s\n", Safe(line))
	}
	_, err := io.WriteString(w, b.String())
	return err
}
