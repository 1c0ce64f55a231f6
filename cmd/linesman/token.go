package main

import (
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"text/tabwriter"
	"time"

	"github.com/linesman/linesman/console"
	"github.com/linesman/linesman/responder/httpserver"
)

type tokenCmd struct {
	Create tokenCreateCmd `cmd:"" help:"Make a token, and print it."`
	List   tokenListCmd   `cmd:"" help:"List the tokens that were made."`
	Remove tokenRemoveCmd `cmd:"" help:"Remove a token: it counts no more."`
}

// Help is printed by `linesman token --help`.
func (tokenCmd) Help() string {
	return `Further tokens for callers over HTTP, beside the one in the data directory that may do everything: one for each caller,
with no more scopes than it needs, and removed without touching the others.

Examples:

    linesman token create dashboard --scope read
    linesman token list
    linesman token remove dashboard

Exit status: 0 done, 1 failed, 2 bad flags or settings.`
}

type tokenCreateCmd struct {
	Name  string `arg:"" help:"What to call it: 1 to 64 letters, digits, '-' and '_'."`
	Scope scopes `placeholder:"LIST" default:"read" help:"What it may do: read, and behind commas submit and raw (default read)."`
}

// scopes is a flag that lists scopes.
type scopes string

// Validate is called by kong.
func (s scopes) Validate() error {
	_, err := httpserver.ParseScopes(string(s))
	return err
}

// Help is printed by `linesman token create --help`.
func (tokenCreateCmd) Help() string {
	return `Makes a token for callers over HTTP, and prints it: nobody can do so again, since only its hash is kept, in tokens.json of
the data directory. It counts at once, also for an up or a responder that runs on the data directory. The scopes:

    read      how runs stand, their events, and the workers
    submit    begin runs, go on with them, and end them: who has it runs programs here
    raw       what agents wrote, as they wrote it

MCP needs all of them. The token in the file of token_file in linesman.json has all of them, too.

Examples:

    linesman token create dashboard
    linesman token create ci --scope read,submit >ci.token

Exit status: 0 done, 1 failed, or there is one of that name, 2 bad flags or settings.`
}

func (c *tokenCreateCmd) Run(a *app) error {
	scopes, err := httpserver.ParseScopes(string(c.Scope))
	if err != nil {
		return err
	}
	if err := os.MkdirAll(a.config.DataDir, 0o700); err != nil {
		return fmt.Errorf("data directory: %w", err)
	}
	token, err := httpserver.CreateToken(a.tokensFile(), c.Name, scopes, time.Now())
	if err != nil {
		return err
	}
	_, err = fmt.Fprintln(a.stdout, token)
	return err
}

type tokenListCmd struct {
	JSON bool `name:"json" help:"Print one JSON object a token, on a line each."`
}

// Help is printed by `linesman token list --help`.
func (tokenListCmd) Help() string {
	return `Lists the tokens that "token create" made in this data directory: their names, scopes, and when they were made.

Exit status: 0 done, 1 failed, 2 bad flags or settings.`
}

func (c *tokenListCmd) Run(a *app) error {
	list, err := httpserver.ListTokens(a.tokensFile())
	if err != nil {
		return err
	}
	if c.JSON {
		for _, t := range list {
			if err := console.PrintJSON(a.stdout, map[string]any{"name": t.Name, "scopes": t.Scopes,
				"created": t.Created}); err != nil {
				return err
			}
		}
		return nil
	}
	if len(list) == 0 {
		return nil
	}
	table := tabwriter.NewWriter(a.stdout, 0, 0, 3, ' ', 0)
	fmt.Fprintln(table, "NAME\tSCOPES\tCREATED")
	for _, t := range list {
		fmt.Fprintf(table, "%s\t%s\t%s\n", console.Word(t.Name), console.Word(strings.Join(t.Scopes, ",")),
			t.Created.UTC().Format(time.RFC3339))
	}
	return table.Flush()
}

type tokenRemoveCmd struct {
	Name string `arg:"" help:"Name of the token."`
}

// Help is printed by `linesman token remove --help`.
func (tokenRemoveCmd) Help() string {
	return `Removes a token. Requests that show it are refused from then on; an answer that is under way goes on to its end.

Exit status: 0 done, 1 failed, or there is no token of that name, 2 bad flags or settings.`
}

func (c *tokenRemoveCmd) Run(a *app) error {
	return httpserver.RemoveToken(a.tokensFile(), c.Name)
}

// tokensFile holds the tokens that were made by hand, as hashes.
func (a *app) tokensFile() string { return filepath.Join(a.config.DataDir, "tokens.json") }
