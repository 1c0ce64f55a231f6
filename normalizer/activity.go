package normalizer

import (
	"bytes"
	"strconv"

	"github.com/linesman/linesman/normalizer/scan"
)

// Activity is the current activity of a run, for people, in parts that are read if no later
// line has another one. Its strings may share the memory of the line.
type Activity struct {
	Text string
	Name string     // after Text
	Rest scan.Value // a string after Text, of which the beginning counts

	Command bool // Rest is a command, whose shell is left out
	More    int  // files beside that in Rest
}

// maxActivity is how much of a string is read for an activity, in bytes of undecoded JSON.
const maxActivity = 320

// append appends the text of a.
func (a *Activity) append(dst []byte) []byte {
	dst = append(append(dst, a.Text...), a.Name...)
	if a.Rest.IsString() {
		from := len(dst)
		dst = a.Rest.Head(maxActivity).Append(dst)
		if a.Command {
			dst = append(dst[:from], WithoutShell(dst[from:])...)
		}
	}
	if a.More > 0 {
		dst = append(strconv.AppendInt(append(dst, " and "...), int64(a.More), 10), " more"...)
	}
	return dst
}

// WithoutShell removes the shell from a command: /bin/bash -lc 'go test ./...'
func WithoutShell(command []byte) []byte {
	const option = "c "
	i := bytes.Index(command[:min(len(command), 32)], []byte(option))
	if i < 0 || !bytes.Contains(command[:i], []byte("sh -")) {
		return command
	}
	command = command[i+len(option):]
	if n := len(command); n > 1 && (command[0] == '\'' || command[0] == '"') {
		if command[n-1] == command[0] {
			n--
		}
		command = command[1:n]
	}
	return command
}
