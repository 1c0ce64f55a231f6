package main

import (
	"errors"
	"fmt"

	"github.com/linesman/linesman/console"
	"github.com/linesman/linesman/daemon"
)

type normalizeCmd struct {
	Agent        agentKind `default:"codex" placeholder:"KIND" help:"The dialect of the input."`
	ExitCode     *int      `name:"exit-code" placeholder:"N" help:"Exit code of the process that printed it: then the completion is printed, too."`
	MaxLineBytes string    `name:"max-line-bytes" setting:"max_line_bytes" placeholder:"SIZE" help:"${max_line_bytes}"`
}

func (c *normalizeCmd) check(a *app) error {
	_, err := a.backend(c.Agent)
	if c.ExitCode != nil && (*c.ExitCode < 0 || *c.ExitCode > 255) {
		err = errors.Join(err, fmt.Errorf("--exit-code: must be from 0 to 255, got %d", *c.ExitCode))
	}
	return err
}

func (c *normalizeCmd) Run(a *app) error {
	b, err := a.backend(c.Agent)
	if err != nil {
		return err
	}
	return daemon.Normalize(a.stdin, b, int(a.config.MaxLineBytes), c.ExitCode, func(lines []byte) error {
		_, err := a.stdout.Write(console.JSONFor(a.stdout, lines))
		return err
	})
}
