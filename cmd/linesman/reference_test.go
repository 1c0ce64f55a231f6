package main

import (
	"bytes"
	"encoding/json"
	"fmt"
	"io"
	"maps"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	"github.com/alecthomas/kong"

	"github.com/linesman/linesman/config"
	"github.com/linesman/linesman/responder/rest"
)

// TestReferenceIsThatOfTheCode compares the pages below docs/reference with what the code
// says of itself. UPDATE_DOCS=1 writes them.
func TestReferenceIsThatOfTheCode(t *testing.T) {
	k, err := newParser(&grammar{}, io.Discard, func(int) {})
	if err != nil {
		t.Fatal(err)
	}
	for name, write := range map[string]func(*bytes.Buffer){
		"commands.md": func(b *bytes.Buffer) { commandsPage(b, k.Model.Node) },
		"settings.md": settingsPage,
		"rest.md":     restPage,
	} {
		var page bytes.Buffer
		write(&page)
		path := filepath.Join("../../docs/reference", name)
		if os.Getenv("UPDATE_DOCS") == "1" {
			if err := os.WriteFile(path, page.Bytes(), 0o644); err != nil {
				t.Fatal(err)
			}
		}
		if kept, err := os.ReadFile(path); err != nil || !bytes.Equal(kept, page.Bytes()) {
			t.Errorf("docs/reference/%s is stale (%v): UPDATE_DOCS=1 go test ./cmd/linesman -run Reference", name, err)
		}
	}
}

// cell is a text as a cell of a table.
func cell(text string) string {
	return strings.NewReplacer("\n", " ", "|", "\\|", "<", "&lt;").Replace(text)
}

func commandsPage(b *bytes.Buffer, root *kong.Node) {
	b.WriteString("# Commands\n\nGenerated from the program: `linesman help COMMAND` prints the same. " +
		"[Settings](settings.md) can be given to every command that has them, as flags below or as variables of " +
		"the environment.\n\n")
	for _, c := range root.Leaves(true) {
		name := strings.TrimPrefix(c.FullPath(), root.Name+" ")
		fmt.Fprintf(b, "- [%s](#%s): %s\n", name, strings.ReplaceAll(name, " ", "-"), c.Help)
	}
	flagsTable(b, "Flags of every command", root.Flags)
	var visit func(n *kong.Node)
	visit = func(n *kong.Node) {
		for _, c := range n.Children {
			if c.Hidden {
				continue
			}
			fmt.Fprintf(b, "\n## %s\n\n`linesman %s`\n\n%s\n", strings.TrimSpace(c.Path()), usage(c), c.Help)
			if c.Detail != "" {
				fmt.Fprintf(b, "\n%s\n", c.Detail)
			}
			arguments(b, c)
			flagsTable(b, "", c.Flags)
			visit(c)
		}
	}
	visit(root)
}

// usage is how a command is called.
func usage(n *kong.Node) string {
	text := strings.TrimSpace(n.Path())
	for _, p := range n.Positional {
		text += " " + p.Summary()
	}
	if len(n.Children) > 0 {
		text += " COMMAND"
	}
	if len(n.Flags) > 0 {
		text += " [FLAGS]"
	}
	return text
}

func arguments(b *bytes.Buffer, n *kong.Node) {
	if len(n.Positional) == 0 {
		return
	}
	b.WriteString("\n| argument | meaning |\n|---|---|\n")
	for _, p := range n.Positional {
		fmt.Fprintf(b, "| `%s` | %s |\n", p.Summary(), cell(p.Help))
	}
}

func flagsTable(b *bytes.Buffer, title string, flags []*kong.Flag) {
	flags = slices.DeleteFunc(slices.Clone(flags), func(f *kong.Flag) bool { return f.Hidden })
	if len(flags) == 0 {
		return
	}
	if title != "" {
		fmt.Fprintf(b, "\n## %s\n", title)
	}
	b.WriteString("\n| flag | meaning |\n|---|---|\n")
	for _, f := range flags {
		short := ""
		if f.Short != 0 {
			short = fmt.Sprintf("`-%c`, ", f.Short)
		}
		fmt.Fprintf(b, "| %s`%s` | %s |\n", short, cell(f.Summary()), cell(f.Help))
	}
}

func settingsPage(b *bytes.Buffer) {
	b.WriteString("# Settings\n\nGenerated from the program. A flag has precedence over a variable of the environment, " +
		"and that over TOML files: the one that `--config` or `LINESMAN_CONFIG` names, else [those of the user and of the " +
		"data directory](../operations.md#settings). [linesman.toml](../linesman.toml) is a file with every setting and " +
		"its default.\n\n| key in the file | variable | default | meaning |\n|---|---|---|---|\n")
	for _, s := range config.Settings() {
		value := ""
		if v := s.Value(); v != "" {
			value = "`" + v + "`"
		}
		help := s.Help
		if len(s.Choices) > 0 {
			help += " One of " + strings.Join(s.Choices, ", ") + "."
		}
		fmt.Fprintf(b, "| `%s` | `%s` | %s | %s |\n", s.Key, s.Env(), value, cell(help))
	}
}

// parameter is one of an operation, or refers to one that several operations have.
type parameter struct {
	Ref         string `json:"$ref"`
	Name        string `json:"name"`
	In          string `json:"in"`
	Description string `json:"description"`
}

// operation is what the page shows of an operation of the OpenAPI document.
type operation struct {
	Summary     string      `json:"summary"`
	Description string      `json:"description"`
	Parameters  []parameter `json:"parameters"`
	Responses   map[string]struct {
		Description string `json:"description"`
	} `json:"responses"`
}

func restPage(b *bytes.Buffer) {
	var document struct {
		Paths      map[string]map[string]json.RawMessage `json:"paths"`
		Components struct {
			Parameters map[string]parameter `json:"parameters"`
		} `json:"components"`
	}
	if err := json.Unmarshal(rest.Document, &document); err != nil {
		panic(err) // it is part of the program
	}
	b.WriteString("# REST\n\nGenerated from the [OpenAPI document](../../responder/rest/openapi.json), which has the " +
		"schemas, too. [REST](../rest.md) explains what it cannot express.\n")
	for _, path := range slices.Sorted(maps.Keys(document.Paths)) {
		for _, method := range []string{"get", "post", "put", "delete"} {
			raw, is := document.Paths[path][method]
			if !is {
				continue
			}
			var o operation
			if err := json.Unmarshal(raw, &o); err != nil {
				panic(err)
			}
			fmt.Fprintf(b, "\n## %s %s\n\n%s.\n", strings.ToUpper(method), path, strings.TrimSuffix(o.Summary, "."))
			if o.Description != "" {
				fmt.Fprintf(b, "\n%s\n", strings.TrimSpace(o.Description))
			}
			if len(o.Parameters) > 0 {
				b.WriteString("\n| parameter | in | meaning |\n|---|---|---|\n")
				for _, p := range o.Parameters {
					if p.Ref != "" {
						p = document.Components.Parameters[p.Ref[strings.LastIndexByte(p.Ref, '/')+1:]]
					}
					fmt.Fprintf(b, "| `%s` | %s | %s |\n", p.Name, p.In, cell(p.Description))
				}
			}
			b.WriteString("\n| status | |\n|---|---|\n")
			for _, code := range slices.Sorted(maps.Keys(o.Responses)) {
				fmt.Fprintf(b, "| %s | %s |\n", code, cell(o.Responses[code].Description))
			}
		}
	}
}
