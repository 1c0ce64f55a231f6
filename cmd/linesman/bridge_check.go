package main

import (
	"errors"
	"fmt"
	"io"
	"io/fs"
	"os"

	"github.com/linesman/linesman/bridge"
)

type bridgeCheckCmd struct {
	File string `arg:"" help:"The response file. \"-\" is stdin."`
}

// Help is printed by `linesman bridge check --help`.
func (bridgeCheckCmd) Help() string {
	return `Says what is wrong with a response file by the contract, one line for each mistake.

Examples:

    linesman bridge check .agent-response.json

Exit status: 0 no mistake, 1 mistakes, or the file cannot be read.`
}

func (c *bridgeCheckCmd) Run(a *app) error {
	in, name := a.stdin, "stdin"
	if c.File != "-" {
		f, err := os.Open(c.File)
		if err != nil {
			return err
		}
		defer f.Close()
		in, name = f, c.File
	}
	b, err := io.ReadAll(io.LimitReader(in, bridge.MaxResponse+1))
	var path *fs.PathError
	switch {
	case errors.As(err, &path):
		return err
	case err != nil:
		return fmt.Errorf("%s: %w", name, err)
	}
	var mistakes []error
	for _, m := range bridge.Check(b) {
		mistakes = append(mistakes, fmt.Errorf("%s: %s", name, m))
	}
	return errors.Join(mistakes...)
}
