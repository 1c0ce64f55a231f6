package codex

import (
	"slices"

	"github.com/linesman/linesman/normalizer"
	"github.com/linesman/linesman/normalizer/scan"
	"github.com/linesman/linesman/normalizer/wire"
)

// maxArguments is how long the arguments of a call may be to be read, in bytes.
const maxArguments = 64 << 10

// logCalls sets the facts of a call: what a command runs, or the to-do list. The arguments are
// a text that is JSON.
func (d *dialect) logCalls(tool string, arguments scan.Value, out *normalizer.Out) {
	var command, list scan.Value
	s := &d.line.s
	if 0 < arguments.Len && arguments.Len <= maxArguments {
		s.Reset([]byte(arguments.Text()))
		for ok := s.Object(); ok && s.Next(); {
			switch string(s.Key()) {
			case "cmd", "command":
				s.First(&command)
			case "plan":
				s.First(&list)
			default:
				s.Skip()
			}
		}
		if s.End() != scan.OK {
			command, list = scan.Value{}, scan.Value{}
		}
	}
	for parts := wire.ElementsOf(command); ; { // of the argument list of a shell, the script is the last
		part, more := parts.Next(s)
		if !more {
			break
		}
		command = part
	}
	switch {
	case command.IsString() && slices.Contains([]string{"exec_command", "shell", "shell_command"}, tool):
		wire.Activity(out, wire.Runs, "", command, scan.Value{})
	case tool == "apply_patch":
		wire.Activity(out, wire.Edits, "", scan.Value{}, scan.Value{})
	case tool == "update_plan":
		wire.Todo(out, s, list, "step")
	default:
		wire.Activity(out, wire.Calls, tool, scan.Value{}, scan.Value{})
	}
}

// logEdits sets the facts of file changes, which are under their paths.
func (d *dialect) logEdits(changes scan.Value, out *normalizer.Out) {
	if changes.Kind != scan.Object {
		return
	}
	s := &d.line.s
	s.Reset(changes.Raw)
	for ok := s.Object(); ok && s.Next(); {
		path := string(s.Key())
		change := s.Value()
		var each scan.Scanner
		typ, _ := wire.Pair(&each, change.Raw, "type", "")
		if kind, known := editKinds[typ.View()]; known {
			wire.AddEdit(out, path, kind)
		}
	}
}
