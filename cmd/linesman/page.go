package main

import (
	"context"
	"fmt"

	"github.com/linesman/linesman/daemon"
)

type pageCmd struct {
	httpFlag
	jsonFlag
}

func (*pageCmd) Run(ctx context.Context, a *app) error {
	link, err := daemon.SignInLink(ctx, a.host())
	if err != nil {
		return err
	}
	return a.print(map[string]string{"url": link}, func() error {
		_, err := fmt.Fprintln(a.stdout, link)
		return err
	})
}
