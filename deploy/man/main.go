// Command man writes the manual pages of linesman, from the generated reference of its
// commands and settings:
//
//	go -C deploy/man run . OUTPUT-DIRECTORY VERSION
//
// It writes linesman.1, linesman-COMMAND.1 for each command, and linesman.toml.5.
package main

import (
	"fmt"
	"os"
	"path/filepath"
	"regexp"
	"strings"

	"github.com/cpuguy83/go-md2man/v2/md2man"
)

const reference = "../../docs/reference"

// heads are the first lines of tables, and rows the others: a flag and its meaning, or a key, its variable, its
// default and its meaning.
var (
	heads = strings.NewReplacer(
		"| flag | meaning |\n|---|---|", "# FLAGS\n",
		"| argument | meaning |\n|---|---|", "# ARGUMENTS\n",
		"| key in the file | variable | default | meaning |\n|---|---|---|---|", "# SETTINGS\n",
	)
	rows    = regexp.MustCompile(`(?m)^\| (.+?) \| (.+) \|$`)
	setting = regexp.MustCompile("(?m)^\\| `(.+?)` \\| `(LINESMAN_\\w+)` \\| (.*?) \\| (.+) \\|$")
)

// lists returns the text with lists in place of its tables, which a terminal may be too narrow for.
func lists(text string) string {
	text = setting.ReplaceAllStringFunc(heads.Replace(text), func(row string) string {
		m := setting.FindStringSubmatch(row)
		of := "$" + m[2]
		if m[3] != "" {
			of += ", default " + m[3]
		}
		return "**" + m[1] + "**\n: " + m[4] + " (" + of + ")\n"
	})
	return rows.ReplaceAllStringFunc(text, func(row string) string {
		m := rows.FindStringSubmatch(row)
		return strings.NewReplacer("`", "**", "<", `\<`).Replace(m[1]) + "\n: " + m[2] + "\n"
	})
}

func main() {
	if len(os.Args) != 3 {
		fmt.Fprintln(os.Stderr, "usage: man OUTPUT-DIRECTORY VERSION")
		os.Exit(2)
	}
	if err := write(os.Args[1], os.Args[2]); err != nil {
		fmt.Fprintln(os.Stderr, "man:", err)
		os.Exit(1)
	}
}

func write(dir, version string) error {
	commands, err := os.ReadFile(filepath.Join(reference, "commands.md"))
	if err != nil {
		return err
	}
	settings, err := os.ReadFile(filepath.Join(reference, "settings.md"))
	if err != nil {
		return err
	}
	if err := os.MkdirAll(dir, 0o755); err != nil {
		return err
	}
	page := func(name string, section int, purpose, text string) error {
		title := fmt.Sprintf("%% %s %d \"\" \"linesman %s\" \"linesman\"\n# NAME\n\n%s \\- %s\n\n", strings.ToUpper(name), section,
			version, name, purpose)
		file := filepath.Join(dir, fmt.Sprintf("%s.%d", name, section))
		return os.WriteFile(file, md2man.Render([]byte(title+lists(text))), 0o644)
	}

	sections := strings.Split(string(commands), "\n## ")[1:]
	list := "# COMMANDS\n\nEach has a page of its own, such as linesman-run(1).\n\n"
	for _, s := range sections[1:] {
		name, text, _ := strings.Cut(s, "\n")
		usage, rest, _ := strings.Cut(strings.TrimSpace(text), "\n")
		purpose, rest, _ := strings.Cut(strings.TrimSpace(rest), "\n")
		list += "**linesman " + name + "**\n: " + purpose + "\n\n"
		body := "# SYNOPSIS\n\n    " + strings.Trim(usage, "`") + "\n\n# DESCRIPTION\n\n" + strings.TrimSpace(rest) + "\n"
		purpose = strings.ToLower(purpose[:1]) + strings.TrimSuffix(purpose[1:], ".")
		if err := page("linesman-"+strings.ReplaceAll(name, " ", "-"), 1, purpose, body); err != nil {
			return err
		}
	}
	_, flags, _ := strings.Cut(sections[0], "\n")
	err = page("linesman", 1, "run coding agents, and publish their output on NATS",
		"# SYNOPSIS\n\n    linesman COMMAND [FLAGS]\n\n"+list+"The following flags are those of every command.\n\n"+flags+"\n# SEE ALSO\n\nlinesman.toml(5)\n")
	if err != nil {
		return err
	}
	_, table, _ := strings.Cut(string(settings), "\n\n")
	return page("linesman.toml", 5, "settings of linesman", "# DESCRIPTION\n\n"+table)
}
