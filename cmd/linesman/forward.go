package main

import (
	"io"

	"github.com/linesman/linesman/console"
)

// Short names of package console.
type record = console.Record

func safe(s string) string                    { return console.Safe(s) }
func safeWord(s string) string                { return console.Word(s) }
func printJSON(w io.Writer, v any) error      { return console.PrintJSON(w, v) }
func jsonFor(w io.Writer, body []byte) []byte { return console.JSONFor(w, body) }

// shown returns a renderer of what people see on out.
func (a *app) shown(out io.Writer) *console.Renderer { return console.New(out, a.getenv) }

func (a *app) getenv(name string) string { return lookup(a.environ, name) }
