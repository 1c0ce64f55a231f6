package config

import (
	"cmp"
	"encoding/json"
	"errors"
	"fmt"
	"io/fs"
	"maps"
	"os"
	"path/filepath"
	"regexp"
	"slices"
	"strconv"
	"strings"
	"syscall"
	"time"

	"github.com/BurntSushi/toml"

	"github.com/linesman/linesman/agent"
	"github.com/linesman/linesman/agent/known"
)

const (
	envPrefix = "LINESMAN_"
	envFile   = envPrefix + "CONFIG" // path of the TOML file; not a setting
)

// Sources are the sources of the settings, in descending order of precedence.
type Sources struct {
	// Flags are the settings on the command line. The last one of duplicates
	// counts.
	Flags []Flag
	// Environ is the environment in the format of os.Environ.
	Environ []string
	// File is the path of a TOML file. Empty means the value of LINESMAN_CONFIG
	// in Environ, and if that is empty, too, the two files of [Files].
	File string
	// Required are files of [Files] whose absence is an error.
	Required []string
}

// InUse returns the files of [Files] that the settings which can change in a running process have their values from:
// log_level, scrub, and data_dir, which says where another file is.
func InUse(from Sources) (files []string) {
	rows, _ := Effective(from)
	for _, s := range rows {
		again := s.Key == "log_level" || s.Key == "scrub" || s.Key == "data_dir"
		if again && s.Origin.Source == sourceFile && !slices.Contains(files, s.Origin.Name) {
			files = append(files, s.Origin.Name)
		}
	}
	return files
}

// Flag is a setting on the command line.
type Flag struct {
	Key   string // key of the setting: "limits.idle"
	Value string // as typed
	Name  string // name in error messages: "--idle-timeout"
}

// Load reads and validates the settings. The error joins all errors: unknown keys
// and variables, values that cannot be parsed, and values out of range, each with
// its source. The paths in the result are absolute.
func Load(from Sources) (Config, error) {
	c, _, err := load(from)
	return *c, err
}

func load(from Sources) (*Config, *loader, error) {
	c := Default()
	l := newLoader(&c)
	env := environment(from.Environ)
	l.read(from, env)
	l.paths(&c, env)

	for _, s := range c.settings() {
		if !l.bad[s.Key] {
			l.errs = append(l.errs, s.verify(l.origin[s.Key].Name))
		}
	}
	return &c, l, errors.Join(l.errs...)
}

// origin is where the value of a setting comes from.
type origin struct {
	// Source is one of the constants below.
	Source string
	// Name is the path of the file, the variable or the flag; "" for a default.
	Name string
}

// The sources of values, in ascending order of precedence.
const (
	SourceDefault     = "default"
	sourceFile        = "file"
	SourceEnvironment = "environment"
	SourceFlag        = "flag"
)

// Effective returns all settings with their values and the origins of these. The error is
// that of [Load].
func Effective(from Sources) ([]Setting, error) {
	c, l, err := load(from)
	rows := c.settings()
	for i := range rows {
		rows[i].Origin = origin{Source: SourceDefault}
		if o, given := l.origin[rows[i].Key]; given {
			rows[i].Origin = o
		}
	}
	return rows, err
}

// NamedFile returns the path of the TOML file that the sources name, or "".
func NamedFile(from Sources) string { return cmp.Or(from.File, environment(from.Environ)[envFile]) }

// Files returns the paths of the TOML files that [Load] reads, in ascending order of
// precedence: the one that is named, which must exist; else that of the user,
// $XDG_CONFIG_HOME/linesman/config.toml or ~/.config/linesman/config.toml, and config.toml in
// the data directory, each if it exists.
func Files(from Sources) []string {
	c := Default()
	l := newLoader(&c)
	return l.read(from, environment(from.Environ))
}

// EditFile returns the path of the file of [Files] to change: the last one that exists, else
// the first one.
func EditFile(from Sources) (string, error) {
	files := Files(from)
	if len(files) == 0 {
		return "", errors.New("config: name a file with --config, as neither XDG_CONFIG_HOME nor HOME is set")
	}
	for _, path := range slices.Backward(files) {
		if _, err := os.Stat(path); err == nil {
			return path, nil
		}
	}
	return files[0], nil
}

// userFile returns the path of the file of the user, "" if the environment names no directory.
func userFile(env map[string]string) string {
	dir := env["XDG_CONFIG_HOME"]
	if !filepath.IsAbs(dir) { // the XDG specification: ignore a relative one
		if env["HOME"] == "" {
			return ""
		}
		dir = filepath.Join(env["HOME"], ".config")
	}
	return filepath.Join(dir, "linesman", "config.toml")
}

// dataFile returns the path of the file in the data directory, "" if that is not known. It is
// called after the file of the user was read, which may set data_dir.
func (l *loader) dataFile(from Sources, env map[string]string) string {
	c := Config{DataDir: l.rows["data_dir"].Value()}
	c.DataDir = cmp.Or(env[envPrefix+"DATA_DIR"], c.DataDir)
	for _, f := range from.Flags {
		if f.Key == "data_dir" {
			c.DataDir = f.Value
		}
	}
	(&loader{}).paths(&c, env) // its mistakes are reported once all is read
	if c.DataDir == "" {
		return ""
	}
	return filepath.Join(c.DataDir, "config.toml")
}

// read sets the settings of all sources. It returns the paths of the files.
func (l *loader) read(from Sources, env map[string]string) (files []string) {
	if named := NamedFile(from); named != "" {
		files = append(files, named)
		l.file(named, true, from.Required)
	} else {
		if path := userFile(env); path != "" {
			files = append(files, path)
			l.file(path, false, from.Required)
		}
		if path := l.dataFile(from, env); path != "" && !slices.Contains(files, path) {
			files = append(files, path)
			l.file(path, false, from.Required)
			if l.origin["data_dir"].Name == path {
				l.errs = append(l.errs, fmt.Errorf("data_dir: cannot be set in a file of the data directory (%s)", path))
			}
		}
	}
	l.environment(env)
	for _, f := range from.Flags {
		l.set(f.Key, f.Value, origin{SourceFlag, f.Name})
	}
	return files
}

// loader has the state of one Load.
type loader struct {
	config *Config
	rows   map[string]Setting
	origin map[string]origin // by key; none: the default
	bad    map[string]bool   // by key: already has an error
	errs   []error
}

func newLoader(c *Config) *loader {
	l := &loader{config: c, rows: map[string]Setting{}, origin: map[string]origin{}, bad: map[string]bool{}}
	l.addRows()
	return l
}

func (l *loader) addRows() {
	for _, s := range l.config.settings() {
		l.rows[s.Key] = s
	}
}

// set sets the value of a setting. A value that cannot be parsed is an error and
// does not change the setting.
func (l *loader) set(key, value string, origin origin) {
	s, known := l.rows[key]
	if !known {
		if err := l.newAgent(key); err != nil {
			l.errs = append(l.errs, fmt.Errorf("%s: %w (%s)", key, err, origin.Name))
			return
		}
		s = l.rows[key]
	}
	if problem := s.parse(value); problem != "" {
		l.errs = append(l.errs, s.invalid(problem, strconv.Quote(value), origin.Name))
		l.bad[key] = true
		return
	}
	l.origin[key] = origin
	delete(l.bad, key)
}

// newAgent adds an agent that linesman does not know, by its setting agents.NAME.acp. Any other unknown key is an
// error.
func (l *loader) newAgent(key string) error {
	ofAgent, is := strings.CutPrefix(key, "agents.")
	name, names := strings.CutSuffix(ofAgent, ".acp")
	if !is || !names {
		return errors.New("no such setting")
	}
	if a, ok := known.All().Find(name); ok {
		return fmt.Errorf("no such setting: that agent is agents.%s", a.Short)
	}
	if err := agent.CheckName(name); err != nil {
		return err
	}
	l.config.Agents[name] = &agentConfig{}
	l.addRows()
	return nil
}

// parse sets the value. It returns a description of the error, or "".
func (s Setting) parse(value string) string {
	switch v := s.target.(type) {
	case *string:
		*v = value
	case *time.Duration:
		return parseInto(v, value, time.ParseDuration, "not a duration such as 30s, 5m or 72h")
	case *size:
		return parseInto(v, value, parseSize, "not a size such as 64KiB, 8MiB or 1GiB")
	case *int:
		return parseInto(v, value, strconv.Atoi, "not a whole number")
	case *bool:
		return parseInto(v, value, strconv.ParseBool, "neither true nor false")
	case *List:
		return v.parse(value)
	case *profiles:
		return v.parse(value)
	}
	return ""
}

// parseInto sets v to a parsed value, or returns problem.
func parseInto[T any](v *T, value string, parse func(string) (T, error), problem string) string {
	parsed, err := parse(value)
	if err != nil {
		return problem
	}
	*v = parsed
	return ""
}

// file reads a file. One that is neither named nor required may be missing.
func (l *loader) file(path string, named bool, required []string) {
	text, err := os.ReadFile(path)
	if isMissing(path, err) {
		switch {
		case slices.Contains(required, path):
			err = fmt.Errorf("%w; if it is to set nothing, make it an empty file", err)
		case !named:
			return
		}
	}
	if err != nil {
		l.errs = append(l.errs, fmt.Errorf("config: %w", err))
		return
	}
	l.text(text, path)
}

// isMissing reports whether a file is not there according to the error of reading it. One in
// a directory that may not be searched counts as missing: a service has no access to homes.
func isMissing(path string, err error) bool {
	if errors.Is(err, fs.ErrPermission) {
		_, err = os.Stat(path)
		return errors.Is(err, fs.ErrPermission)
	}
	return errors.Is(err, fs.ErrNotExist) || errors.Is(err, syscall.ENOTDIR)
}

// text sets the settings in a TOML text. The table of settings determines the
// types: a size can be a number or a string with a unit.
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
		s, known := l.rows[key]
		if v, isTable := tree[name].(map[string]any); isTable && known {
			l.errs = append(l.errs, fmt.Errorf("%s: must be a value, got a table (%s)", key, path))
		} else if isTable {
			l.table(key+".", v, path)
		} else if text, fits := s.text(tree[name]); known && !fits {
			l.errs = append(l.errs, fmt.Errorf("%s: must be a string or a whole number, got %v (%s)", key, tree[name], path))
		} else {
			l.set(key, text, origin{sourceFile, path})
		}
	}
}

// text returns a value of a TOML file in the format of flags, false if it has a
// type that the setting cannot have.
func (s Setting) text(value any) (string, bool) {
	switch v := value.(type) {
	case string:
		return v, true
	case int64:
		return strconv.FormatInt(v, 10), true
	case bool:
		_, fits := s.target.(*bool)
		return strconv.FormatBool(v), fits
	case []any:
		_, list := s.target.(*List)
		_, profiles := s.target.(*profiles)
		b, err := json.Marshal(v)
		return string(b), (list || profiles) && err == nil
	case []map[string]any:
		_, fits := s.target.(*profiles)
		b, err := json.Marshal(v)
		return string(b), fits && err == nil
	}
	return "", false
}

// kubernetesHost ends the variable that Kubernetes sets in each pod for a service. Together with a name before it that
// begins with linesman, all that kubernetesVariable matches behind that name are no settings.
const kubernetesHost = "SERVICE_HOST"

var kubernetesVariable = regexp.MustCompile(`^(` + kubernetesHost + `|SERVICE_PORT(_[A-Z0-9_]+)?|` +
	`PORT(_[0-9]+_(TCP|UDP|SCTP)(_(ADDR|PORT|PROTO))?)?)$`)

// noticeVariable matches the variables that `linesman watch` gives to its command, which may
// be linesman.
var noticeVariable = regexp.MustCompile(`^LINESMAN_(RUN|NOTICE(_ID|_TEXT)?)$`)

func (l *loader) environment(env map[string]string) {
	keys := map[string]string{}
	for key, s := range l.rows {
		keys[s.Env()] = key
	}
	var services []string // of Kubernetes: what their variables begin with
	for name := range env {
		if service, is := strings.CutSuffix(name, kubernetesHost); is && strings.HasPrefix(service, envPrefix) {
			services = append(services, service)
		}
	}
	ofService := func(name string) bool {
		return slices.ContainsFunc(services, func(service string) bool {
			rest, is := strings.CutPrefix(name, service)
			return is && kubernetesVariable.MatchString(rest)
		})
	}
	for _, name := range slices.Sorted(maps.Keys(env)) {
		switch key, known := keys[name]; {
		case known:
			l.set(key, env[name], origin{SourceEnvironment, name})
		case name == envFile || !strings.HasPrefix(name, envPrefix):
		case ofService(name), noticeVariable.MatchString(name):
		default:
			l.errs = append(l.errs, fmt.Errorf("%s: no such setting", name))
		}
	}
}

// paths sets the defaults of data_dir and environments, which depend on the
// environment, and makes all paths absolute.
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
	paths := []*string{&c.DataDir, &c.Creds, &c.PublicCreds, &c.Environments, &c.Watch.SecretFile, &c.Watch.State,
		&c.AdCP.WebhookKey, &c.Announce.Creds}
	for i := range c.Announce.Profiles {
		paths = append(paths, &c.Announce.Profiles[i].Dir)
	}
	for _, roots := range []List{c.Work.Roots, c.Work.AddRoots} {
		for i := range roots {
			paths = append(paths, &roots[i])
		}
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
			l.errs = append(l.errs, fmt.Errorf("make path absolute: %w", err))
			continue
		}
		*path = abs
	}
}

// environment returns environ as a map. The first one of duplicate names counts,
// as in os.Getenv.
func environment(environ []string) map[string]string {
	env := map[string]string{}
	for _, variable := range environ {
		name, value, _ := strings.Cut(variable, "=")
		if _, duplicate := env[name]; !duplicate {
			env[name] = value
		}
	}
	return env
}
