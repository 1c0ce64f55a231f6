package main

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"os/exec"
	"os/signal"
	"path/filepath"
	"strings"
	"syscall"
	"text/tabwriter"

	"github.com/linesman/linesman/cmd/console"
	"github.com/linesman/linesman/config"
)

type configCmd struct {
	Show  configShowCmd  `cmd:"" default:"withargs" settings:"none" help:"Print the settings in effect, and their sources."`
	Path  configPathCmd  `cmd:"" settings:"none" help:"Print the path of the configuration file."`
	Edit  configEditCmd  `cmd:"" settings:"none" help:"Open the configuration file in an editor."`
	Check configCheckCmd `cmd:"" settings:"none" help:"Check the settings of all sources."`
}

type configShowCmd struct{ jsonFlag }

func (c *configShowCmd) Run(a *app) error {
	rows, wrong := config.Effective(a.sources)
	if wrong != nil {
		wrong = exitWith(exitUsage, wrong)
	}
	if c.JSON {
		all := make([]map[string]any, 0, len(rows))
		for _, s := range rows {
			all = append(all, map[string]any{"key": s.Key, "value": s.Shown(), "source": s.Origin.Source, "name": s.Origin.Name})
		}
		return errors.Join(wrong, console.PrintJSON(a.stdout, map[string]any{"settings": all, "files": configFiles(a)}))
	}
	table := tabwriter.NewWriter(a.stdout, 0, 0, 2, ' ', 0)
	fmt.Fprintln(table, "SETTING\tFROM\tVALUE")
	for _, s := range rows {
		from := cmp.Or(s.Origin.Name, s.Origin.Source)
		fmt.Fprintf(table, "%s\t%s\t%s\n", s.Key, console.Safe(from), cmp.Or(console.Safe(s.Shown()), "–"))
	}
	return errors.Join(wrong, table.Flush())
}

// configFile is a configuration file that commands read if it exists.
type configFile struct {
	Path   string `json:"path"`
	Exists bool   `json:"exists"`
}

func configFiles(a *app) (all []configFile) {
	for _, path := range config.Files(a.sources) {
		_, err := os.Stat(path)
		all = append(all, configFile{path, err == nil})
	}
	return all
}

type configPathCmd struct{ jsonFlag }

func (c *configPathCmd) Run(a *app) error {
	path, err := config.EditFile(a.sources)
	if err != nil {
		return err
	}
	return a.print(map[string]any{"path": path, "files": configFiles(a)}, func() error {
		_, err := fmt.Fprintln(a.stdout, path)
		return err
	})
}

type configCheckCmd struct{ jsonFlag }

func (c *configCheckCmd) Run(a *app) error {
	_, wrong := config.Load(a.sources)
	if c.JSON {
		mistakes := []string{}
		if wrong != nil {
			mistakes, wrong = strings.Split(wrong.Error(), "\n"), exitWith(exitUsage, wrong)
		}
		return errors.Join(wrong, console.PrintJSON(a.stdout, map[string]any{"ok": wrong == nil, "mistakes": mistakes,
			"files": configFiles(a)}))
	}
	if wrong != nil {
		return exitWith(exitUsage, wrong)
	}
	read := false
	for _, f := range configFiles(a) {
		if read = read || f.Exists; f.Exists {
			fmt.Fprintf(a.stdout, "%s: ok\n", console.Safe(f.Path))
		}
	}
	if !read {
		path, err := config.EditFile(a.sources)
		if err != nil {
			return err
		}
		fmt.Fprintf(a.stdout, "there is no configuration file; `linesman config edit` makes %s\n", console.Safe(path))
	}
	return nil
}

// newConfig is the content of a configuration file that is made.
const newConfig = `# Settings of linesman: "linesman config" prints all of them, and where each value comes from.
# "linesman up" reads this file when it starts: restart a running one after a change. For example:
#
# [work]
# max_runs = 4
# add_roots = ["/srv/projects"]    # tasks may work there, too
`

type configEditCmd struct{}

func (*configEditCmd) Run(ctx context.Context, a *app) error {
	path, err := config.EditFile(a.sources)
	if err != nil {
		return err
	}
	beside := a.sources
	beside.File = os.DevNull
	if _, wrong := config.Load(beside); wrong != nil { // no change of the file corrects it
		return exitWith(exitUsage, wrong)
	}
	editor := cmp.Or(a.getenv("VISUAL"), a.getenv("EDITOR"))
	if editor == "" && console.TerminalOf(a.stdin) == nil {
		return exitWith(exitUsage, fmt.Errorf("there is no terminal, and neither VISUAL nor EDITOR is set: edit %s", path))
	}
	if err := os.MkdirAll(filepath.Dir(path), 0o700); err != nil {
		return fmt.Errorf("configuration file: %w", err)
	}
	f, err := os.OpenFile(path, os.O_WRONLY|os.O_CREATE|os.O_EXCL, 0o600)
	switch {
	case err == nil:
		_, err = f.WriteString(newConfig)
		if err = errors.Join(err, f.Close()); err != nil {
			return fmt.Errorf("configuration file: %w", err)
		}
	case !errors.Is(err, fs.ErrExist):
		return fmt.Errorf("configuration file: %w", err)
	}
	before, _ := os.ReadFile(path)
	editor = cmp.Or(editor, "vi")
	// It may have arguments, and variables before it: then the shell becomes the editor, for signals. It may also be a
	// command of the shell.
	script := "exec env " + editor
	if strings.ContainsAny(editor, ";&|()<>") || strings.HasPrefix(editor, "exec ") {
		script = editor
	}
	cmd := exec.CommandContext(context.WithoutCancel(ctx), "/bin/sh", "-c", script+` "$1"`, "sh", path)
	cmd.Env, cmd.Stdin, cmd.Stdout, cmd.Stderr = a.environ, a.stdin, a.stdout, a.stderr
	if terminal := console.TerminalOf(a.stdout); terminal != nil {
		cmd.Stdout, cmd.Stderr = terminal, terminal
	}
	told, err := attend(ctx, cmd)
	switch {
	case err != nil && told:
		return exitWith(signalCode(terminated), fmt.Errorf("editor %q on %s: %w", editor, path, terminated))
	case err != nil:
		return fmt.Errorf("editor %q on %s: %w (set VISUAL or EDITOR to another one)", editor, path, err)
	}
	if _, wrong := config.Load(a.sources); wrong != nil {
		return exitWith(exitUsage, fmt.Errorf("%w\n%s is saved but not valid: correct it with `linesman config edit`",
			wrong, path))
	}
	if after, err := os.ReadFile(path); err == nil && string(after) != string(before) {
		fmt.Fprintf(a.stderr, "linesman: %s is valid; restart a running `linesman up` to apply it\n", path)
	}
	return nil
}

const terminated = signalled(syscall.SIGTERM)

// attend runs a program that has the terminal. Ctrl-C is for it alone; SIGTERM is passed on to it, and told is true.
func attend(ctx context.Context, cmd *exec.Cmd) (told bool, err error) {
	signals := make(chan os.Signal, 4)
	signal.Notify(signals, os.Interrupt, syscall.SIGTERM)
	defer signal.Stop(signals)
	if err := ctx.Err(); err != nil { // it was before
		return false, err
	}
	if err := cmd.Start(); err != nil {
		return false, err
	}
	ended := make(chan error, 1)
	go func() { ended <- cmd.Wait() }()
	for {
		select {
		case s := <-signals:
			if s == syscall.SIGTERM {
				told = true
				_ = cmd.Process.Signal(s) // fails if it has ended
			}
		case err := <-ended:
			return told, err
		}
	}
}
