package agent

import (
	"slices"
	"strings"
)

// Flags are the flags of a program, as far as its prompt cannot be found without them. They
// are lists of names with their dashes, separated by white space.
type Flags struct {
	Switches string // have no value
	Values   string // have one value
	Lists    string // have all arguments up to the next flag as values
	Prompt   string // have the prompt as their value
}

// Arguments are the arguments of a program without its flags.
type Arguments struct {
	Words    []string // before "--"
	Rest     []string // after "--"
	Prompt   string   // value of a flag of the prompt
	Switches []string // names of the switches in use
	Values   []string // names of the flags with a value in use, each followed by its value
	// Unsure: a word may be the value of a flag that is not known.
	Unsure bool
}

// Of splits the arguments after the program in a command line.
func (f Flags) Of(argv []string) (a Arguments) {
	args := arguments(argv)
	for i := 0; i < len(args); i++ {
		arg := args[i]
		if arg == "--" {
			a.Rest = args[i+1:]
			return a
		}
		if len(arg) < 2 || arg[0] != '-' {
			a.Words = append(a.Words, arg)
			continue
		}
		name, value, joined := strings.Cut(arg, "=")
		if len(arg) > 2 && arg[1] != '-' && !has(f.all(), name) { // -mVALUE
			name, value, joined = arg[:2], strings.TrimPrefix(arg[2:], "="), has(f.Values+" "+f.Prompt, arg[:2])
		}
		next := i+1 < len(args)
		switch {
		case has(f.Prompt, name):
			if !joined && next {
				i++
				value = args[i]
			}
			a.Prompt = value
		case has(f.Values, name):
			if !joined && next {
				i++
				value = args[i]
			}
			a.Values = append(a.Values, name, value)
		case has(f.Lists, name):
			for !joined && i+1 < len(args) && !strings.HasPrefix(args[i+1], "-") {
				i++
			}
		case has(f.Switches, name):
			a.Switches = append(a.Switches, name)
		default:
			a.Unsure = a.Unsure || !joined && next && !strings.HasPrefix(args[i+1], "-")
		}
	}
	return a
}

// Value returns the value of a flag with one of the names, or "".
func (a Arguments) Value(names ...string) string {
	for i := 0; i+1 < len(a.Values); i += 2 {
		if slices.Contains(names, a.Values[i]) {
			return a.Values[i+1]
		}
	}
	return ""
}

func (f Flags) all() string {
	return strings.Join([]string{f.Switches, f.Values, f.Lists, f.Prompt}, " ")
}

func has(names, name string) bool { return slices.Contains(strings.Fields(names), name) }

// Positional returns the words of the prompt, those of the agent's command first, joined by
// spaces. It is "" if they may be something else.
func (a Arguments) Positional() string {
	if a.Unsure && len(a.Words) > 0 {
		a.Words = nil
		if len(a.Rest) == 0 {
			return ""
		}
	}
	return strings.Join(append(slices.Clip(a.Words), a.Rest...), " ")
}

// arguments returns the arguments after the program.
func arguments(argv []string) []string {
	if argv = program(argv); len(argv) == 0 {
		return nil
	}
	return argv[1:]
}

// Prompt returns the prompt in a command line of an agent, "" if there is none or if it is
// not certain.
func (t Table) Prompt(argv []string) string {
	if len(argv) == 0 {
		return ""
	}
	a, ok := t.named(program(argv)[0])
	if !ok || a.Launch.Prompt == nil {
		return ""
	}
	return a.Launch.Prompt(argv)
}

// Continues returns the thread in a command line of this agent that resumes it, or forks it: "" if
// there is none, or if it is not certain.
func (l Launch) Continues(argv []string) (id string, forks bool) {
	if l.Thread == nil || len(argv) == 0 {
		return "", false
	}
	return l.Thread(argv)
}
