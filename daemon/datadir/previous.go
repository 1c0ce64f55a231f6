package datadir

import (
	"cmp"
	"encoding/json"
	"errors"
	"fmt"
	"io/fs"
	"maps"
	"net"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"syscall"

	"github.com/linesman/linesman/config"
	"github.com/linesman/linesman/internal/files"
)

// Previous is what an `up` in the background takes over from the `linesman up` that the data
// directory had before: the content of up.json. It has no values of variables of agents,
// which may be secrets.
type Previous struct {
	// Config is the absolute path of the configuration file that was named, if one was.
	Config string `json:"config,omitempty"`
	// Settings are the values from flags and the environment, by key.
	Settings map[string]string `json:"settings,omitempty"`
	// Dir is the working directory.
	Dir string `json:"dir,omitempty"`
	// Variables are the names of the variables that it had for agents.
	Variables []string `json:"variables,omitempty"`
	// NATSListen and HTTP are where it listened: HOST:PORT.
	NATSListen string `json:"nats_listen,omitempty"`
	HTTP       string `json:"http,omitempty"`
}

func previousFile(data string) string { return filepath.Join(data, "up.json") }

// others are the settings that an `up` does not use, or that are kept in another way; keys
// that end with a dot are those of a table. What may be a secret is among them.
var others = []string{
	"nats", "announce.nats", "creds", "public_creds", "data_dir", "nats_listen", "http", "monitor_http",
	"background.start", "watch.",
}

// Describe returns what the next `up` in the background takes over from this process, an
// `up` that another command did not start, except for its addresses.
func Describe(from config.Sources, cfg config.Config) Previous {
	var p Previous
	p.Dir, _ = os.Getwd() // "" if it was removed
	if path := config.NamedFile(from); path != "" {
		p.Config, _ = filepath.Abs(path)
	}
	p.Settings = map[string]string{}
	rows, _ := config.Effective(from) // they are valid, or this process would not run
	for _, s := range rows {
		given := s.Origin.Source == config.SourceFlag || s.Origin.Source == config.SourceEnvironment
		if given && !slices.ContainsFunc(others, func(key string) bool {
			return s.Key == key || strings.HasSuffix(key, ".") && strings.HasPrefix(s.Key, key)
		}) {
			p.Settings[s.Key] = s.Value()
		}
	}
	p.Variables = agentVariables(cfg, from.Environ)
	return p
}

// agentVariables returns the names of the variables in environ that pass to agents of tasks.
func agentVariables(cfg config.Config, environ []string) (names []string) {
	for _, how := range cfg.Launches(cfg.Table()) {
		for _, name := range how.Env {
			if hasVariable(environ, name) {
				names = append(names, name)
			}
		}
	}
	slices.Sort(names)
	return slices.Compact(names)
}

func hasVariable(environ []string, name string) bool {
	return slices.ContainsFunc(environ, func(v string) bool { return strings.HasPrefix(v, name+"=") })
}

// Write replaces up.json of a data directory.
func (p Previous) Write(data string) error {
	b, err := json.MarshalIndent(p, "", "  ")
	if err != nil {
		return err
	}
	return files.Replace(previousFile(data), ".tmp-up-*", append(b, '\n'))
}

// readPrevious reads up.json of a data directory; without one the result is empty.
func readPrevious(data string) (p Previous, err error) {
	b, err := os.ReadFile(previousFile(data))
	switch {
	case errors.Is(err, fs.ErrNotExist), errors.Is(err, syscall.ENOTDIR): // the new process says what is there
		return p, nil
	case err != nil:
		return p, fmt.Errorf("data directory: %w", err)
	}
	if err := json.Unmarshal(b, &p); err != nil {
		return p, fmt.Errorf("%s, the settings of the `linesman up` before, is damaged: %w; remove it, or start "+
			"`linesman up` with its flags, which writes it again", previousFile(data), err)
	}
	return p, nil
}

// sources returns the sources of the settings of an `up` in the background. What the command
// that starts it sets itself, by --config and its environment, comes before what is taken over.
func (p Previous) sources(file string, environ []string, data string) config.Sources {
	from := config.Sources{
		File: file, Environ: slices.Clone(environ), Flags: []config.Flag{{Key: "data_dir", Value: data, Name: "--data-dir"}},
	}
	from.File = cmp.Or(config.NamedFile(from), p.Config)
	for _, key := range slices.Sorted(maps.Keys(p.Settings)) { // also those of agents that only a file defines
		if key == "announce.creds" && !given(from, "announce.nats") {
			continue // they would be an error
		}
		if s := (config.Setting{Key: key}); !hasVariable(environ, s.Env()) {
			from.Environ = append(from.Environ, s.Env()+"="+p.Settings[key])
		}
	}
	return from
}

// missing describes the variables for agents that the `up` before had, and that the command
// that starts the next one does not, or is "".
func (p Previous) missing(environ []string) string {
	gone := slices.DeleteFunc(slices.Clone(p.Variables), func(name string) bool { return hasVariable(environ, name) })
	if len(gone) == 0 {
		return ""
	}
	return fmt.Sprintf("the `linesman up` before had %s for tasks, and the one that starts in the background does not, "+
		"as it is not set here: set it, or start `linesman up` where it is set, if tasks need it", strings.Join(gone, ", "))
}

// address returns the address for an `up` in the background to listen on: that of the
// settings, else that of the `up` before, else a free port. note says why the address
// before cannot be used. The address then has a free port, on loopback if the machine no longer has
// the old host: what was for one network is not open to another.
func address(from config.Sources, key, set, before string) (address, note string) {
	const free = "0"
	address = cmp.Or(before, net.JoinHostPort("127.0.0.1", free))
	if given(from, key) {
		if _, port, err := net.SplitHostPort(set); err != nil || port != free || before == "" {
			address = set
		}
	}
	if address != before {
		return address, ""
	}
	l, err := net.Listen("tcp", address)
	if err == nil {
		_ = l.Close()
		return address, ""
	}
	host, _, _ := net.SplitHostPort(address)
	why := "is in use by another process"
	var lookup *net.DNSError
	switch {
	case errors.Is(err, syscall.EADDRINUSE):
	case errors.Is(err, syscall.EACCES):
		why = "cannot be listened on: permission denied"
	case errors.Is(err, syscall.EADDRNOTAVAIL):
		host, why = "127.0.0.1", "cannot be listened on: cannot assign requested address"
	case errors.Is(err, syscall.EAFNOSUPPORT):
		host, why = "127.0.0.1", "cannot be listened on: its address family is not supported"
	case errors.As(err, &lookup):
		host, why = "127.0.0.1", "cannot be listened on: "+lookup.Error()
	default:
		return address, ""
	}
	return net.JoinHostPort(host, free), fmt.Sprintf("%s, the address (%s) of the `linesman up` before, %s", address, key, why)
}

// given reports whether any source sets the setting with this key.
func given(from config.Sources, key string) bool {
	rows, _ := config.Effective(from)
	return slices.ContainsFunc(rows, func(s config.Setting) bool {
		return s.Key == key && s.Origin.Source != config.SourceDefault
	})
}
