package main

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"

	"github.com/linesman/linesman/console"
	"github.com/linesman/linesman/doctor"
)

type doctorCmd struct {
	JSON bool `name:"json" help:"Print one line of JSON, not for people."`
}

func (c *doctorCmd) Run(ctx context.Context, a *app) error {
	checks := doctor.Examine(ctx, a.dialer)
	var end error
	for _, check := range checks {
		if check.Level == doctor.Fail {
			end = exitWith(exitFailed, nil)
		}
	}
	if c.JSON {
		return errors.Join(end, console.PrintJSON(a.stdout, struct {
			OK     bool           `json:"ok"`
			Checks []doctor.Check `json:"checks"`
		}{end == nil, checks}))
	}
	r := a.shown(a.stdout)
	colors := map[doctor.Level]string{
		doctor.OK: console.Green, doctor.Warn: console.Yellow, doctor.Fail: console.Red, doctor.Skip: console.Dim,
	}
	for _, check := range checks {
		text := check.Text
		if check.Do != "" {
			text += "; " + check.Do
		}
		level := r.Paint(colors[check.Level], fmt.Sprintf("%-4s", check.Level))
		if _, err := fmt.Fprintf(a.stdout, "%s  %-9s  %s\n", level, check.Name, console.Safe(text)); err != nil {
			return err
		}
	}
	return end
}

type contextCmd struct {
	User string `arg:"" optional:"" default:"subscriber" enum:"subscriber,operator,worker,normalizer,responder,operator_public,normalizer_public,responder_public" help:"User: subscriber (default), operator, worker, normalizer or responder; operator_public, normalizer_public and responder_public are the users of these roles in the account of the events."`

	ServerConfig bool   `name:"server-config" help:"Print linesman's accounts, users and permissions as configuration of a nats-server instead."`
	NKey         bool   `name:"nkey" help:"With --server-config: users authenticate with NKeys, not certificates."`
	JWT          bool   `name:"jwt" help:"With --server-config: users authenticate with credentials files, not certificates."`
	Keys         string `name:"keys" placeholder:"DIR" help:"With --nkey or --jwt: directory of the secret keys. Missing keys are created."`
}

func (c *contextCmd) Run(a *app) error {
	keys := c.NKey || c.JWT
	switch {
	case !c.ServerConfig && (keys || c.Keys != ""):
		return exitWith(exitUsage, errors.New("--nkey, --jwt and --keys: are for --server-config"))
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
	b, err := json.MarshalIndent(one, "", "  ")
	if err != nil {
		return err
	}
	if a.shown(a.stdout).Terminal() && one.Password != "" {
		fmt.Fprintln(a.stderr, "linesman: the following contains a password; keep it secret")
	}
	_, err = fmt.Fprintf(a.stdout, "%s\n", console.JSONFor(a.stdout, b))
	return err
}
