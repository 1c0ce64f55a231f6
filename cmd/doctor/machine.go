package doctor

import (
	"context"
	"fmt"
	"os"
	"os/exec"
	"slices"
	"strconv"
	"strings"

	"github.com/linesman/linesman/worker/programs"
)

// agents checks the programs that run tasks. One that was not configured may be missing, as
// long as there is another one.
func (x *examination) agents(ctx context.Context) {
	missing := Fail
	if x.Settings.NATS != "" || x.Settings.Work.MaxRuns == 0 { // tasks may run elsewhere
		missing = warn
	}
	here := programs.Here{Launches: x.Settings.Launches(x.table), Environ: x.dialer.Environ, Ask: x.ask}
	all, _ := here.List(ctx, x.table, "")
	if !slices.ContainsFunc(all, func(a programs.Agent) bool { return a.Path != "" }) {
		var install []string
		for _, a := range x.table {
			if a.Install != "" {
				install = append(install, a.Install)
			}
		}
		x.note("agents", missing, "none is installed", strings.Join(install, ", or "))
		all = slices.DeleteFunc(all, func(a programs.Agent) bool { return a.Default })
	}
	for _, a := range all {
		version := a.Path + ", version " + a.Version
		if a.Version == "" {
			version = a.Path
		}
		if a.Withheld != "" {
			version += "; " + a.Withheld
		}
		switch {
		case a.Path == "" && a.Default:
			x.note(a.Short, fine, "not installed, which is fine unless tasks are for it ("+a.Install+")", "")
		case a.Slow:
			x.note(a.Short, warn, a.Problem, a.Fix)
		case a.Problem != "":
			x.note(a.Short, missing, a.Problem, a.Fix)
		case a.Support == programs.Unknown:
			x.note(a.Short, warn, version, "linesman was tested with "+a.Tested+
				": lines that are new in this version become events of the kind unknown, and runs report them as drift")
		default:
			x.note(a.Short, fine, version, "")
		}
	}
	x.live(all)
}

// live notes which of the agents that are installed have live runs, and what the others lack.
func (x *examination) live(all []programs.Agent) {
	var have, lack, do []string
	level := fine
	for _, a := range all {
		switch l := a.Live; {
		case l == nil || a.Path == "":
		case l.Path != "":
			text := a.Short + " by " + l.Path
			if l.Version != "" {
				text += ", version " + l.Version
			}
			if have = append(have, text); l.Version != "" && l.Version != l.Tested {
				level = warn
				do = append(do, "linesman was tested with "+l.Tested+" of the adapter of "+a.Name+
					": what is new in another version may not be understood")
			}
		default:
			lack = append(lack, a.Short+": "+l.Problem)
			do = append(do, l.Fix)
		}
	}
	if text := strings.Join(slices.Concat(have, lack), "; "); text != "" {
		x.note("live", level, text, strings.Join(do, "; "))
	}
}

// roots notes in which directories tasks may work with these settings.
func (x *examination) roots(context.Context) (level, string, string) {
	roots, more := x.Settings.Work.Roots, x.Settings.Work.AddRoots
	text := "tasks may work in " + strings.Join(roots, ", ") + " (work.roots)"
	if len(roots) == 0 {
		text = "tasks may work where the worker was started, and in the user's home (work.roots)"
	}
	if len(more) > 0 {
		text += ", and in " + strings.Join(more, ", ") + " (work.add_roots)"
	}
	return fine, text, ""
}

func (x *examination) git(context.Context) (level, string, string) {
	path, err := exec.LookPath("git")
	if err != nil {
		return warn, "git is not on the PATH", "install it: agents work in repositories"
	}
	return fine, path, ""
}

// inotify checks the limits of Linux on following files. Other systems have none.
func (x *examination) inotify(context.Context) (level, string, string) {
	for _, l := range []struct {
		key   string
		least int
	}{{"max_user_watches", 8192}, {"max_user_instances", 128}} {
		b, err := os.ReadFile("/proc/sys/fs/inotify/" + l.key)
		if err != nil {
			break
		}
		n, err := strconv.Atoi(strings.TrimSpace(string(b)))
		if err == nil && n < l.least {
			return warn, fmt.Sprintf("fs.inotify.%s is %d: files may be followed late", l.key, n),
				fmt.Sprintf("sysctl fs.inotify.%s=%d", l.key, l.least)
		}
	}
	return fine, "its limits are high enough", ""
}
