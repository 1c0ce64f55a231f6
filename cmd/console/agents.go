package console

import (
	"cmp"
	"fmt"
	"io"
	"slices"
	"strings"

	"github.com/linesman/linesman/internal/lazy"
	"github.com/linesman/linesman/worker/programs"
)

// support is a support of a version, for people.
var support = map[programs.Support]struct{ color, text string }{
	programs.Tested:  {Green, "tested"},
	programs.Known:   {Green, "known good"},
	programs.Unknown: {Yellow, "not tested"},
	"":               {Red, "no version"},
}

// Agents lists the agents of this machine, one a line; with details it prints all that is
// known of each.
func (r *Renderer) Agents(all []programs.Agent, details bool) error {
	var b strings.Builder
	for _, a := range all {
		if details {
			r.agent(&b, a)
		}
	}
	if !details {
		r.agentTable(&b, all)
	}
	_, err := io.WriteString(r.out, b.String())
	return err
}

func (r *Renderer) agentTable(b *strings.Builder, all []programs.Agent) {
	b.WriteString("AGENT     VERSION       SUPPORT        LIVE  PROGRAM\n")
	for _, a := range all {
		color, status, program := support[a.Support].color, support[a.Support].text, a.Path
		switch {
		case a.Path == "":
			color, status, program = Dim, "not installed", cmp.Or(a.Install, a.Fix)
		case a.Version == "" && a.Ready():
			color, status = Dim, "not asked"
		}
		live := "no"
		if a.Live != nil && a.Live.Path != "" {
			live = "yes"
		}
		line := fmt.Sprintf("%-8s  %-12s  %s  %-4s  %s", a.Short, Word(a.Version),
			r.Paint(color, fmt.Sprintf("%-13s", status)), live, Safe(program))
		b.WriteString(line + "\n")
	}
	for _, a := range all {
		if a.Path != "" && a.Live != nil && a.Live.Path == "" {
			fmt.Fprintf(b, "\n%s: no live runs: %s\n", a.Short, Safe(a.Live.Problem+"; "+a.Live.Fix))
		}
	}
	for _, a := range all {
		if len(a.Drift) > 0 {
			fmt.Fprintf(b, "\n%s: recent runs printed what linesman does not know: %s\n", a.Short,
				Safe(strings.Join(a.Drift, ", ")))
		}
	}
}

// agent writes facts about an agent, and its command lines by mode.
func (r *Renderer) agent(b *strings.Builder, a programs.Agent) {
	var all facts
	all.add("agent", fmt.Sprintf("%s (%s), agent_kind %s", a.Name, a.Short, a.Kind))
	all.add("command", shellWords(a.Command))
	all.add("program", Safe(a.Path))
	if a.Version != "" {
		all.add("version", a.Version+", "+support[a.Support].text)
	}
	all.add("problem", Safe(a.Problem))
	all.add("fix", Safe(a.Fix))
	if a.Live != nil {
		all.add("live", shellWords(a.Live.Command))
		all.add("", Safe(cmp.Or(a.Live.Path, a.Live.Problem+"; "+a.Live.Fix)))
		if a.Live.Version != "" {
			all.add("", "version "+a.Live.Version+", tested with "+a.Live.Tested)
		}
	}
	all.add("tested", a.Tested)
	switch n := len(a.Known); n {
	case 0, 1, 2:
		all.add("known", strings.Join(a.Known, " "))
	default:
		all.add("known", fmt.Sprintf("%d versions from %s to %s; --json lists them", n, a.Known[0], a.Known[n-1]))
	}
	for _, thing := range a.Drift {
		all.add("unknown", Safe(thing)+", printed by a recent run")
	}
	if a.Prints != "" {
		all.add("output", "JSON lines with `"+a.Prints+"`")
	}
	for _, v := range a.Variables {
		set := "not set here"
		if v.Set {
			set = "set here"
		}
		all.add("variable", Safe(v.Name)+", "+set)
	}
	all.add("withheld", a.Withheld)
	all.add("login", "in the home of its user, or with a variable that "+a.Setting+" names")
	all.add("sandbox", a.Sandbox)
	r.facts(b, all)
	for _, m := range a.Modes {
		title := string(m.Mode)
		if !m.Allowed {
			title += ", not allowed here (work.danger)"
		}
		fmt.Fprintf(b, "\n%s\n", r.Paint(bold, title))
		fmt.Fprintf(b, "  %s\n", shellWords(slices.Concat(m.Env, m.Argv)))
		if len(m.Resume) > 0 {
			fmt.Fprintf(b, "  %s\n", shellWords(slices.Concat(m.Env, m.Resume)))
		}
	}
}

var plainWord = lazy.Regexp(`^[A-Za-z0-9_@%+=:,./-]+$`)

// shellWords returns a command line, or variables and a command line, as a shell reads them.
func shellWords(argv []string) string {
	words := make([]string, len(argv))
	for i, word := range argv {
		words[i] = Safe(word)
		if name, value, is := strings.Cut(word, "="); is && plainWord().MatchString(name) && !plainWord().MatchString(value) {
			words[i] = name + "=" + shellQuote(value)
		} else if !plainWord().MatchString(word) {
			words[i] = shellQuote(word)
		}
	}
	return strings.Join(words, " ")
}

func shellQuote(word string) string { return "'" + strings.ReplaceAll(Safe(word), "'", `'\''`) + "'" }
