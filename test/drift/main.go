// Program drift plays published versions of the agents against the scripted model of
// test/lab, and tells what linesman does not understand of their output.
//
//	go run ./test/drift [-agent claude] [-versions "2.1.330 2.1.329"] [-outputs DIR] [-json]
//
// versions.json has the versions and how each is played; results.json gets what came
// of it. The table in docs/agents.md and the versions in the table of agents are
// generated from the results. Of the adapters for live runs it tells which versions there are:
// the suite of live runs tries the pinned ones. It needs npm, Node.js and a network, and runs in the
// root of the repository.
package main

import (
	"context"
	"encoding/json"
	"errors"
	"flag"
	"fmt"
	"io"
	"os"
	"os/signal"
	"slices"
	"strings"
	"syscall"
	"time"

	"github.com/linesman/linesman/agent/known"
	"github.com/linesman/linesman/runs"
)

func main() {
	ctx, stop := signal.NotifyContext(context.Background(), os.Interrupt, syscall.SIGTERM)
	defer stop()
	if err := run(ctx, os.Args[1:], os.Stdout); err != nil && !errors.Is(err, flag.ErrHelp) {
		fmt.Fprintln(os.Stderr, "drift:", err)
		os.Exit(1)
	}
}

func run(ctx context.Context, args []string, w io.Writer) error {
	flags := flag.NewFlagSet("drift", flag.ContinueOnError)
	only := flags.String("agent", "", "play this agent only: "+strings.Join(known.Agents.Names(), ", "))
	versions := flags.String("versions", "", "play these versions only; results.json gets those that are in versions.json")
	outputs := flags.String("outputs", "", "keep what the agents print in this `folder`; what is there is not played again")
	asJSON := flags.Bool("json", false, "print the results as JSON")
	generate := flags.Bool("generate", false, "play nothing: generate from results.json")
	if err := flags.Parse(args); err != nil {
		return err
	}
	l, err := load(".")
	if err != nil {
		return err
	}
	if *generate {
		return l.generate()
	}
	p, err := newPlayer(l.root, *outputs)
	if err != nil {
		return err
	}
	defer p.close()
	now := results{}
	for _, a := range known.Agents {
		if *only != "" && *only != a.Short {
			continue
		}
		want := strings.FieldsFunc(*versions, func(r rune) bool { return r == ' ' || r == ',' })
		if len(want) == 0 {
			want = slices.Clone(l.plans[a.Short].Versions)
			slices.Reverse(want) // the newest first
		}
		for _, v := range want {
			r := p.version(ctx, a, l.plans[a.Short], v)
			if ctx.Err() != nil {
				return ctx.Err()
			}
			if !*asJSON {
				fmt.Fprint(w, r.text(a.Name))
			}
			now.put(a.Short, r)
			if !slices.Contains(l.plans[a.Short].Versions, v) {
				continue
			}
			l.results.put(a.Short, r)
			if err := l.generate(); err != nil {
				return err
			}
		}
	}
	if !*asJSON {
		return adapters(ctx, w, *only)
	}
	e := json.NewEncoder(w)
	e.SetIndent("", "  ")
	return e.Encode(now)
}

// adapters lists the adapters for live runs: the tested version, and the newest one that npm has.
func adapters(ctx context.Context, w io.Writer, only string) error {
	for _, a := range known.All() {
		if a.Live.Tested == "" || only != "" && only != a.Short {
			continue
		}
		name := a.Live.Package()
		out, _, exit, err := execute(ctx, time.Minute, "", nil, "npm", "view", name, "version")
		newest := strings.TrimSpace(string(out))
		switch {
		case err != nil:
			return err
		case exit != 0 || runs.CheckVersion(newest) != nil:
			newest = "unknown"
		case newest == a.Live.Tested:
			newest = "the same"
		}
		fmt.Fprintf(w, "%s: tested with %s, newest: %s\n", name, a.Live.Tested, newest)
	}
	return nil
}
