package agent

import (
	"cmp"
	"path"
	"slices"
	"strings"
)

// wrapper is a program that starts the one in the arguments after its own.
type wrapper struct {
	verbs  []string // the first argument with which it does so; nil: always
	values string   // its flags that have a value, separated by white space
	words  int      // how many words come before the other program
}

var wrappers = map[string]wrapper{
	"env": {values: "-u --unset -C --chdir"}, "nice": {values: "-n --adjustment"}, "nohup": {}, "setsid": {},
	"timeout": {values: "-k --kill-after -s --signal", words: 1}, "stdbuf": {values: "-i -o -e"},
	"sudo": {values: "-u --user -g --group"},
	"npx":  {values: "-p --package"}, "bunx": {values: "-p --package"}, "pnpx": {},
	"pnpm": {verbs: []string{"dlx", "exec"}, words: 1}, "yarn": {verbs: []string{"dlx", "exec"}, words: 1},
	"npm": {verbs: []string{"exec", "x"}, words: 1},
}

// program returns a command line from the program on that it starts, also by way of wrappers.
func program(argv []string) []string {
	for len(argv) > 1 {
		w, known := wrappers[path.Base(argv[0])]
		if !known || w.verbs != nil && !slices.Contains(w.verbs, argv[1]) {
			break
		}
		argv = w.rest(argv[1:])
	}
	return argv
}

// rest returns what follows the wrapper's own arguments: at least the last one.
func (w wrapper) rest(args []string) []string {
	for words := w.words; len(args) > 1; {
		switch word := args[0]; {
		case has(w.values, word):
			args = args[min(2, len(args)-1):]
			continue
		case strings.HasPrefix(word, "-"), strings.Contains(word, "="):
		case words > 0:
			words--
		default:
			return args
		}
		args = args[1:]
	}
	return args
}

// ProgramOf returns the base name of the program that a command line starts, also by way of
// wrappers such as env and npx.
func ProgramOf(argv []string) string {
	argv = program(argv)
	return cmp.Or(unversioned(path.Base(argv[0])), argv[0])
}

// unversioned returns the name of a program without the version that npx allows.
func unversioned(name string) string {
	if at := strings.LastIndexByte(name, '@'); at > 0 {
		return name[:at]
	}
	return name
}

// named returns the agent with a program, which may have a path, or the npm package of one.
func (t Table) named(word string) (Agent, bool) {
	base, pkg := unversioned(path.Base(word)), unversioned(word)
	return t.find(func(a Agent) bool { return base == a.Program || a.Install == "npm install -g "+pkg })
}

var (
	shells  = []string{"sh", "bash", "dash", "zsh", "ksh"}
	remotes = []string{"docker", "podman", "nerdctl", "kubectl", "ssh"} // start a program elsewhere
)

// OfCommand returns the agent whose program a command line starts, false if there is none, or it
// cannot be told: by way of wrappers, a script of a shell, or a container or another machine.
func (t Table) OfCommand(argv []string) (Agent, bool) {
	if len(argv) == 0 {
		return Agent{}, false
	}
	argv = program(argv)
	if a, ok := t.named(argv[0]); ok {
		return a, true
	}
	if script, ok := scriptOf(argv); ok {
		return t.inScript(script)
	}
	base := path.Base(argv[0])
	if !slices.Contains(remotes, base) {
		return Agent{}, false
	}
	for i := range argv[1:] {
		if script, ok := scriptOf(argv[1+i:]); ok {
			return t.inScript(script)
		}
	}
	for _, word := range slices.Backward(argv[1:]) {
		if a, ok := t.named(word); ok {
			return a, true
		}
	}
	if base == "ssh" {
		return t.inScript(strings.Join(argv[1:], " ; "))
	}
	return Agent{}, false
}

// scriptOf returns the script that a shell is given as an argument.
func scriptOf(argv []string) (script string, ok bool) {
	if !slices.Contains(shells, path.Base(argv[0])) {
		return "", false
	}
	for i, arg := range argv[1:] {
		if !strings.HasPrefix(arg, "-") {
			return "", false
		}
		if i+2 < len(argv) && !strings.HasPrefix(arg, "--") && strings.HasSuffix(arg, "c") { // -c, -lc
			return argv[i+2], true
		}
	}
	return "", false
}

var separated = strings.NewReplacer(";", " ; ", "&", " ; ", "|", " ; ", "(", " ; ", ")", " ; ", "\n", " ; ")

// inScript returns the first agent that a script starts. It knows words and separators, not quotes.
func (t Table) inScript(script string) (Agent, bool) {
	words := strings.Fields(separated.Replace(script))
	first := true // of a command
	for i, word := range words {
		switch {
		case word == ";", word == "exec", word == "then", word == "do", word == "{":
			first = true
			continue
		case first && strings.Contains(word, "="):
			continue
		case first:
			if a, ok := t.named(strings.Trim(program(words[i:])[0], `"'`)); ok {
				return a, true
			}
		}
		first = false
	}
	return Agent{}, false
}

// PrintsJSON reports whether a command line of the agent has the words with which it prints JSON
// lines.
func (a Agent) PrintsJSON(argv []string) bool {
	text := " " + separated.Replace(strings.Join(argv, " ")) + " "
	for _, any := range a.JSONWords {
		if !slices.ContainsFunc(any, func(word string) bool {
			return strings.Contains(text, " "+word+" ") || strings.Contains(text, "="+word+" ")
		}) {
			return false
		}
	}
	return true
}
