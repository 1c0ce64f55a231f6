package config

import (
	"cmp"
	"errors"
	"fmt"
	"maps"
	"os"
	"path/filepath"
	"regexp"
	"slices"
	"strconv"
	"strings"
	"time"

	"github.com/BurntSushi/toml"
)

const (
	envPrefix = "LINESMAN_"
	envFile   = envPrefix + "CONFIG" // where the file is; no setting of its own
)

// Sources are the places that settings come from, the strongest first.
type Sources struct {
	// Flags are the settings given on the command line. Of a setting given
	// twice the last counts.
	Flags []Flag
	// Environ is the environment, as os.Environ gives it.
	Environ []string
	// File is the path of a TOML file. Empty means what LINESMAN_CONFIG says,
	// and if that says nothing, no file.
	File string
}

// Flag is a setting given on the command line.
type Flag struct {
	Key   string // of the setting: "limits.idle"
	Value string // as typed
	Name  string // what errors call it: "--idle-timeout"
}

// Load reads the settings and validates them. The error reports all mistakes
// at once: keys and variables that do not exist, values that do not parse, and
// values out of range, each with where it came from. The paths in the result
// are absolute.
func Load(from Sources) (Config, error) {
	c := Default()
	l := newLoader(&c)
	env := environment(from.Environ)
	l.read(from, env)
	l.paths(&c, env)

	for _, s := range c.settings() {
		if !l.bad[s.Key] {
			l.errs = append(l.errs, s.verify(l.origin[s.Key]))
		}
	}
	return c, errors.Join(l.errs...)
}

// Given reports whether any of the sources sets a setting.
func Given(from Sources, key string) bool {
	c := Default()
	l := newLoader(&c)
	l.read(from, environment(from.Environ))
	return l.origin[key] != ""
}

func (l *loader) read(from Sources, env map[string]string) {
	l.file(cmp.Or(from.File, env[envFile]))
	l.environment(env)
	for _, f := range from.Flags {
		l.set(f.Key, f.Value, f.Name)
	}
}

// loader collects what one Load finds.
type loader struct {
	rows   map[string]Setting
	origin map[string]string // by key: who set the value
	bad    map[string]bool   // by key: has an error already
	errs   []error
}

func newLoader(c *Config) *loader {
	l := &loader{rows: map[string]Setting{}, origin: map[string]string{}, bad: map[string]bool{}}
	for _, s := range c.settings() {
		l.rows[s.Key] = s
	}
	return l
}

// set gives one setting a value. A value that does not parse is an error and
// leaves the setting as it was.
func (l *loader) set(key, value, origin string) {
	s, known := l.rows[key]
	if !known {
		l.errs = append(l.errs, fmt.Errorf("%s: no such setting (%s)", key, origin))
		return
	}
	if problem := s.parse(value); problem != "" {
		l.errs = append(l.errs, s.mistake(problem, strconv.Quote(value), origin))
		l.bad[key] = true
		return
	}
	l.origin[key] = origin
	delete(l.bad, key)
}

func (s Setting) parse(value string) string {
	switch v := s.target.(type) {
	case *string:
		*v = value
	case *time.Duration:
		d, err := time.ParseDuration(value)
		if err != nil {
			return "not a duration such as 30s, 5m or 72h"
		}
		*v = d
	case *Size:
		if err := v.UnmarshalText([]byte(value)); err != nil {
			return err.Error()
		}
	case *int:
		n, err := strconv.Atoi(value)
		if err != nil {
			return "not a whole number"
		}
		*v = n
	case *bool:
		b, err := strconv.ParseBool(value)
		if err != nil {
			return "neither true nor false"
		}
		*v = b
	case *List:
		return v.parse(value)
	}
	return ""
}

// list gives a setting that is a list the values of an array.
func (l *loader) list(key string, values []any, origin string) {
	var all List
	for _, v := range values {
		text, isText := v.(string)
		if !isText {
			l.errs = append(l.errs, fmt.Errorf("%s: must be an array of strings (%s)", key, origin))
			return
		}
		all = append(all, text)
	}
	*l.rows[key].target.(*List), l.origin[key] = all, origin
}

func (l *loader) file(path string) {
	if path == "" {
		return
	}
	text, err := os.ReadFile(path)
	if err != nil {
		l.errs = append(l.errs, fmt.Errorf("config: %w", err))
		return
	}
	l.text(text, path)
}

// text reads TOML into the table of settings. Types are those of the table,
// not of TOML: a size may be a number or a string with a unit.
func (l *loader) text(text []byte, path string) {
	var tree map[string]any
	if err := toml.Unmarshal(text, &tree); err != nil {
		l.errs = append(l.errs, fmt.Errorf("config: %s: %w", path, err))
		return
	}
	l.table("", tree, path)
}

func (l *loader) table(prefix string, tree map[string]any, path string) {
	for _, name := range slices.Sorted(maps.Keys(tree)) {
		key := prefix + name
		switch v := tree[name].(type) {
		case map[string]any:
			if _, known := l.rows[key]; known {
				l.errs = append(l.errs, fmt.Errorf("%s: must be a value, got a table (%s)", key, path))
				continue
			}
			l.table(key+".", v, path)
		case string:
			l.set(key, v, path)
		case int64:
			l.set(key, strconv.FormatInt(v, 10), path)
		default:
			s, known := l.rows[key]
			switch values, isArray := v.([]any); {
			case !known:
				l.set(key, "", path)
				continue
			case isArray && s.isList():
				l.list(key, values, path)
				continue
			case v == true || v == false:
				if _, is := s.target.(*bool); is {
					l.set(key, fmt.Sprint(v), path)
					continue
				}
			}
			l.errs = append(l.errs, fmt.Errorf("%s: must be a string or a whole number, got %v (%s)", key, v, path))
		}
	}
}

func (s Setting) isList() bool {
	_, is := s.target.(*List)
	return is
}

// ofKubernetes are the variables that each pod gets for a service named
// linesman; none is a setting.
var ofKubernetes = regexp.MustCompile(`^LINESMAN_(SERVICE_HOST|SERVICE_PORT(_[A-Z0-9_]+)?|PORT(_[0-9]+_(TCP|UDP|SCTP)(_(ADDR|PORT|PROTO))?)?)$`)

func (l *loader) environment(env map[string]string) {
	key := map[string]string{}
	for k, s := range l.rows {
		key[s.Env()] = k
	}
	for _, name := range slices.Sorted(maps.Keys(env)) {
		switch k, known := key[name]; {
		case known:
			l.set(k, env[name], name)
		case name == envFile || !strings.HasPrefix(name, envPrefix):
		case ofKubernetes.MatchString(name):
		default:
			l.errs = append(l.errs, fmt.Errorf("%s: no such setting", name))
		}
	}
}

// paths puts in the default of data_dir, which depends on the environment, and
// makes every path absolute.
func (l *loader) paths(c *Config, env map[string]string) {
	if c.DataDir == "" {
		switch data, home := env["XDG_DATA_HOME"], env["HOME"]; {
		case filepath.IsAbs(data): // the XDG specification: ignore a relative one
			c.DataDir = filepath.Join(data, "linesman")
		case home != "":
			c.DataDir = filepath.Join(home, ".local", "share", "linesman")
		default:
			l.errs = append(l.errs, errors.New("data_dir: must be set where neither XDG_DATA_HOME nor HOME is"))
		}
	}
	if c.Environments == "" && env["HOME"] != "" {
		c.Environments = filepath.Join(env["HOME"], ".config", "mcp-delegator", "environments.json")
	}
	paths := []*string{&c.DataDir, &c.Creds, &c.PublicCreds, &c.Environments}
	for i := range c.Work.Roots {
		paths = append(paths, &c.Work.Roots[i])
	}
	for _, path := range paths {
		if *path == "" {
			continue
		}
		if rest, ok := strings.CutPrefix(*path, "~/"); ok && env["HOME"] != "" {
			*path = filepath.Join(env["HOME"], rest)
		}
		abs, err := filepath.Abs(*path)
		if err != nil {
			l.errs = append(l.errs, fmt.Errorf("working directory, for a relative path: %w", err))
			continue
		}
		*path = abs
	}
}

// environment is environ as a map. Of a name given twice the first counts, as
// it does for os.Getenv.
func environment(environ []string) map[string]string {
	env := map[string]string{}
	for _, one := range environ {
		name, value, _ := strings.Cut(one, "=")
		if _, twice := env[name]; !twice {
			env[name] = value
		}
	}
	return env
}
