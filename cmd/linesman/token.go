package main

import (
	"fmt"
	"os"
	"strings"
	"text/tabwriter"
	"time"

	"github.com/linesman/linesman/console"
	"github.com/linesman/linesman/local"
	"github.com/linesman/linesman/responder/httpserver"
)

type tokenCmd struct {
	Create tokenCreateCmd `cmd:"" help:"Create a token, and print it."`
	List   tokenListCmd   `cmd:"" help:"List the created tokens."`
	Remove tokenRemoveCmd `cmd:"" help:"Revoke a token."`
}

type tokenCreateCmd struct {
	Name  string `arg:"" help:"Name: 1 to 64 letters, digits, '-' and '_'."`
	Scope scopes `placeholder:"LIST" default:"read" help:"Permissions: read, submit and raw, separated by commas (default read)."`
}

func (c *tokenCreateCmd) Run(a *app) error {
	scopes, err := httpserver.ParseScopes(string(c.Scope))
	if err != nil {
		return err
	}
	if err := os.MkdirAll(a.config.DataDir, 0o700); err != nil {
		return fmt.Errorf("data directory: %w", err)
	}
	token, err := httpserver.CreateToken(local.TokensFile(a.config.DataDir), c.Name, scopes, time.Now())
	if err != nil {
		return err
	}
	_, err = fmt.Fprintln(a.stdout, token)
	return err
}

type tokenListCmd struct {
	JSON bool `name:"json" help:"Print each token as a JSON object, on one line."`
}

func (c *tokenListCmd) Run(a *app) error {
	list, err := httpserver.ListTokens(local.TokensFile(a.config.DataDir))
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
}

func (c *tokenRemoveCmd) Run(a *app) error {
	return httpserver.RemoveToken(local.TokensFile(a.config.DataDir), c.Name)
}
