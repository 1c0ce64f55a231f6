package main

import (
	"context"
	"fmt"
	"strings"

	"github.com/linesman/linesman/doctor"
)

type healthCmd struct{}

// Help is printed by `linesman health --help`.
func (healthCmd) Help() string {
	return `Checks that the "linesman up" of this data directory, or the NATS server of --nats, accepts and stores data: the streams
exist and have space, a write is acknowledged, and a normalizer keeps up. It works with the keys of any role. Those of
operator and normalizer permit all checks; checks that other keys do not permit are listed on stderr.

Examples:

    linesman health && echo fine

Exit status: 0 healthy, 2 bad flags or settings, 3 not healthy; the reason is on stderr.`
}

func (c *healthCmd) Run(ctx context.Context, a *app) error {
	a.whisper()
	user, unchecked, err := doctor.Health(ctx, a.dialer())
	switch {
	case exitCode(err) == exitUsage:
		return err
	case err != nil:
		return exitWith(exitNATS, err)
	}
	if len(unchecked) > 0 {
		fmt.Fprintf(a.stderr, "linesman: not checked, as the keys of %s do not permit it: %s\n", user,
			strings.Join(unchecked, ", "))
	}
	return nil
}
