package main

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"os"
	"slices"
	"strings"
	"text/tabwriter"
	"time"

	"github.com/alecthomas/kong"

	"github.com/linesman/linesman/cmd/console"
	"github.com/linesman/linesman/cmd/doctor"
	"github.com/linesman/linesman/daemon"
	"github.com/linesman/linesman/responder/httpserver"
)

type doctorCmd struct{ jsonFlag }

func (c *doctorCmd) Run(ctx context.Context, a *app) error {
	var progress func([]string)
	if !c.JSON && a.shown(a.stdout).Terminal() && a.shown(a.stderr).Terminal() {
		const clear = "\r\x1b[K"
		progress = func(names []string) {
			fmt.Fprint(a.stderr, clear)
			if len(names) > 0 {
				fmt.Fprint(a.stderr, console.Cut("checking: "+strings.Join(names, ", "), 78))
			}
		}
	}
	checks := doctor.Examine(ctx, a.dialer, a.config.Table(), progress)
	if progress != nil {
		progress(nil)
	}
	if ctx.Err() != nil { // the checks say nothing
		return ctx.Err()
	}
	var end error
	if slices.ContainsFunc(checks, func(c doctor.Check) bool { return c.Level == doctor.Fail }) {
		end = exitWith(exitFailed, nil)
	}
	if c.JSON {
		return errors.Join(end, console.PrintJSON(a.stdout, struct {
			OK     bool           `json:"ok"`
			Checks []doctor.Check `json:"checks"`
		}{end == nil, checks}))
	}
	return errors.Join(end, doctor.Print(a.stdout, a.shown(a.stdout), checks))
}

type contextCmd struct {
	User string `arg:"" optional:"" default:"subscriber" enum:"subscriber,operator,prompter,worker,normalizer,responder,operator_public,normalizer_public,responder_public,responder_agents" help:"User: subscriber (default), operator, prompter, worker, normalizer or responder; operator_public, normalizer_public and responder_public are the users of these roles in the account of the events, responder_agents in that of prompter."`

	ServerConfig bool   `name:"server-config" help:"Print linesman's accounts, users and permissions as configuration of a nats-server instead."`
	NKey         bool   `name:"nkey" help:"With --server-config: users authenticate with NKeys, not certificates."`
	JWT          bool   `name:"jwt" help:"With --server-config: users authenticate with credentials files, not certificates."`
	Keys         string `name:"keys" placeholder:"DIR" help:"With --nkey or --jwt: directory of the secret keys. Missing keys are created."`
	jsonFlag
}

func (c *contextCmd) Run(a *app) error {
	keys := c.NKey || c.JWT
	switch {
	case !c.ServerConfig && (keys || c.Keys != ""):
		return exitWith(exitUsage, errors.New("--nkey, --jwt and --keys: are for --server-config"))
	case c.ServerConfig && c.JSON:
		return exitWith(exitUsage, errors.New("--json: not with --server-config, which prints the configuration of a server"))
	case c.JWT && c.NKey:
		return exitWith(exitUsage, errors.New("--jwt and --nkey: one of them"))
	case keys == (c.Keys == ""):
		return exitWith(exitUsage, errors.New("--keys: is for --nkey or --jwt, which need it"))
	case c.ServerConfig:
		text, err := a.dialer.ServerConfig(c.Keys, c.JWT)
		if err == nil {
			_, err = io.WriteString(a.stdout, text)
		}
		return err
	}
	one, err := a.dialer.NATSContext(c.User)
	if err != nil {
		return err
	}
	if a.shown(a.stdout).Terminal() && one.Password != "" {
		fmt.Fprintln(a.stderr, "linesman: the following contains a password; keep it secret")
	}
	return a.print(one, func() error {
		b, err := json.MarshalIndent(one, "", "  ")
		if err == nil {
			_, err = fmt.Fprintf(a.stdout, "%s\n", console.JSONFor(a.stdout, b))
		}
		return err
	})
}

type tokenCmd struct {
	Create tokenCreateCmd `cmd:"" help:"Create a token, and print it."`
	List   tokenListCmd   `cmd:"" help:"List the created tokens."`
	Remove tokenRemoveCmd `cmd:"" help:"Revoke a token."`
}

type tokenCreateCmd struct {
	Name  string `arg:"" help:"Name: 1 to 64 letters, digits, '-' and '_'."`
	Scope scopes `placeholder:"LIST" default:"read" help:"Permissions: read, submit, raw and answer, separated by commas (default read), or metrics."`
	jsonFlag
}

func (c *tokenCreateCmd) Run(ctx context.Context, a *app) error {
	scopes, err := httpserver.ParseScopes(string(c.Scope))
	if err != nil {
		return err
	}
	if err := os.MkdirAll(a.config.DataDir, 0o700); err != nil {
		return fmt.Errorf("data directory: %w", err)
	}
	tokens, err := daemon.OpenTokens(ctx, a.host())
	if err != nil {
		return err
	}
	defer tokens.Close()
	token, err := tokens.Create(ctx, c.Name, scopes)
	if err != nil {
		return err
	}
	return a.print(map[string]any{"name": c.Name, "scopes": scopes.Names(), "token": token}, func() error {
		_, err := fmt.Fprintln(a.stdout, token)
		return err
	})
}

type tokenListCmd struct{ jsonFlag }

func (c *tokenListCmd) Run(ctx context.Context, a *app) error {
	tokens, err := daemon.OpenTokens(ctx, a.host())
	if err != nil {
		return err
	}
	defer tokens.Close()
	list, err := tokens.List(ctx)
	if err != nil {
		return err
	}
	table := tabwriter.NewWriter(a.stdout, 0, 0, 3, ' ', 0)
	if !c.JSON && len(list) > 0 {
		fmt.Fprintln(table, "NAME\tSCOPES\tCREATED")
	}
	for _, t := range list {
		if !c.JSON {
			fmt.Fprintf(table, "%s\t%s\t%s\n", console.Word(t.Name), console.Word(strings.Join(t.Scopes, ",")),
				t.Created.UTC().Format(time.RFC3339))
		} else if err := console.PrintJSON(a.stdout, map[string]any{"name": t.Name, "scopes": t.Scopes,
			"created": t.Created}); err != nil {
			return err
		}
	}
	return table.Flush()
}

type tokenRemoveCmd struct {
	Name string `arg:"" help:"Name of the token."`
	jsonFlag
}

func (c *tokenRemoveCmd) Run(ctx context.Context, a *app) error {
	tokens, err := daemon.OpenTokens(ctx, a.host())
	if err != nil {
		return err
	}
	defer tokens.Close()
	err = tokens.Remove(ctx, c.Name)
	if err != nil || !a.json {
		return err
	}
	return console.PrintJSON(a.stdout, map[string]any{"name": c.Name, "removed": true})
}

// version is set by the linker for a release: -X main.version=v1.2.3.
var version string

type versionCmd struct{ jsonFlag }

func (c *versionCmd) Run(a *app) error {
	b := daemon.BuildOf(version)
	return a.print(b, func() error {
		_, err := fmt.Fprintln(a.stdout, b)
		return err
	})
}

type versionFlag bool

// BeforeReset is called by kong when the flag is given.
func (versionFlag) BeforeReset(k *kong.Kong) error {
	_, err := fmt.Fprintln(k.Stdout, daemon.BuildOf(version))
	k.Exit(exitDone)
	return err
}

type helpCmd struct {
	Command []string `arg:"" optional:"" help:"The command. By default all of them."`
}

func (c *helpCmd) Run(a *app) error {
	_, err := parse(append(c.Command, "--help"), a.stdout)
	if err != nil {
		return exitWith(exitUsage, err)
	}
	return nil
}
