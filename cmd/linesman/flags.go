package main

import (
	"cmp"
	"errors"
	"fmt"
	"reflect"
	"slices"
	"strings"
	"time"

	"github.com/linesman/linesman/agent/known"
	"github.com/linesman/linesman/api"
	"github.com/linesman/linesman/config"
	"github.com/linesman/linesman/daemon"
	"github.com/linesman/linesman/normalizer"
	"github.com/linesman/linesman/responder/httpserver"
	"github.com/linesman/linesman/runs"
)

// jsonFlag is the flag of commands that print data. A refused request is JSON then, too.
type jsonFlag struct {
	JSON bool `name:"json" help:"Print JSON, on one line, not for people."`
}

// httpFlag, lostFlag and workerFlags are settings of the roles.
type httpFlag struct {
	HTTP string `name:"http" setting:"http" placeholder:"HOST:PORT" help:"${http}"`
}

// monitorFlag is the setting of roles without surfaces for HTTP.
type monitorFlag struct {
	HTTP listenAddress `name:"http" placeholder:"HOST:PORT" help:"${monitor_http}"`
}

type lostFlag struct {
	LostAfter string `name:"lost-after" setting:"lost_after" placeholder:"DURATION" help:"${lost_after}"`
}

type workerFlags struct {
	MaxRuns string   `name:"max-runs" setting:"work.max_runs" placeholder:"N" help:"${work_max_runs}"`
	Root    []string `name:"root" sep:"none" setting:"work.add_roots" placeholder:"DIR" help:"Tasks may also work in and below this directory; can be repeated ($$LINESMAN_WORK_ADD_ROOTS)."`
	lostFlag
}

// host is what package daemon builds from, with the flag.
func (f monitorFlag) host(a *app) daemon.Config {
	host := a.host()
	host.Settings.MonitorHTTP = cmp.Or(string(f.HTTP), host.Settings.MonitorHTTP)
	return host
}

// startFlags are the flags of commands that start runs.
type startFlags struct {
	Title string `placeholder:"TEXT" help:"What the run is for, at most 120 characters. By default the first line of its prompt, if that is known."`
	labelFlag
}

type labelFlag struct {
	Label labels `placeholder:"K=V" mapsep:"none" help:"Label of the run; can be repeated."`
}

// taskFlags are the flags of commands that submit tasks.
type taskFlags struct {
	Mode     mode     `placeholder:"MODE" help:"What the agent may do: read-only, workspace-write or danger-full-access (default read-only)."`
	Model    string   `placeholder:"MODEL" help:"Model of the agent. By default that of the request, if any, else the agent's own choice."`
	SkipGit  bool     `name:"skip-git-repo-check" help:"Also work outside of a git repository."`
	Env      string   `default:"inherit-none" enum:"inherit-none,inherit-all,allow-list" placeholder:"POLICY" help:"Which of the worker's variables the agent gets in addition to those that every program needs: inherit-none, inherit-all or allow-list (default inherit-none)."`
	AllowEnv []string `placeholder:"NAME" help:"Give the agent this variable of the worker; sets the policy allow-list. Repeat the flag or separate names with commas."`
}

// task is a task without a prompt.
func (f *taskFlags) task() runs.Task {
	t := runs.Task{
		Attributes: runs.Attributes{Mode: cmp.Or(runs.Mode(f.Mode), runs.ReadOnly), Model: f.Model}, SkipGit: f.SkipGit,
		Env: runs.EnvPolicy{Policy: f.Env, Allow: f.AllowEnv},
	}
	if f.AllowEnv != nil && f.Env == runs.InheritNone {
		t.Env.Policy = runs.InheritList
	}
	return t
}

// problems are the mistakes of a command line.
type problems []error

// add adds a mistake, if there is one.
func (p *problems) add(is bool, format string, args ...any) {
	if is {
		*p = append(*p, fmt.Errorf(format, args...))
	}
}

// listenAddress is a flag that holds an address to listen on.
type listenAddress string

// Validate is called by kong.
func (a listenAddress) Validate() error { return config.CheckListen(string(a)) }

// runID is a flag that holds a run id. kong validates only what was given, so
// --run "" is a mistake.
type runID string

// Validate is called by kong.
func (id runID) Validate() error { return runs.CheckID(string(id)) }

// runRef is an argument that names an existing run, as [client.Client.Resolve] reads it.
type runRef string

// Validate is called by kong.
func (ref runRef) Validate() error {
	if strings.Contains(string(ref), "=") { // a label
		return nil
	}
	return runs.CheckID(string(ref))
}

func (ref runRef) inCloud() bool { return strings.HasPrefix(string(ref), "T-cloud-") }

// moment is a flag that holds a time.
type moment runs.Time

// UnmarshalText is called by kong.
func (m *moment) UnmarshalText(text []byte) error {
	t, err := momentOf(string(text), time.Now())
	*m = moment(t)
	return err
}

// momentOf reads a time as people write it: a duration before now such as 2h, a date, or a time
// of RFC 3339. A date is midnight in the time zone of now.
func momentOf(text string, now time.Time) (runs.Time, error) {
	if d, err := time.ParseDuration(text); err == nil {
		if d < 0 {
			return 0, errors.New("must not be negative")
		}
		return api.TimeOf(now.Add(-d)), nil
	}
	for _, form := range []string{time.DateOnly, time.RFC3339} {
		if t, err := time.ParseInLocation(form, text, now.Location()); err == nil {
			return api.TimeOf(t), nil
		}
	}
	return 0, errors.New("must be a duration such as 2h, a date such as 2026-05-31, or a time of RFC 3339")
}

// agentKind is a flag that names a kind of agent, or the short name of a known one, which
// becomes its kind.
type agentKind string

// Validate is called by kong.
func (kind *agentKind) UnmarshalText(name []byte) error {
	*kind = agentKind(name)
	if a, ok := known.All().Find(string(name)); ok {
		*kind = agentKind(a.Kind())
	}
	return nil
}

func (kind agentKind) Validate() error { return runs.CheckAgent(string(kind)) }

// mode is a flag that tells what an agent may do.
type mode runs.Mode

var modes = []string{string(runs.ReadOnly), string(runs.WorkspaceWrite), string(runs.DangerFull)}

// UnmarshalText is called by kong.
func (m *mode) UnmarshalText(text []byte) error {
	if *m = mode(text); *m == "" { // as without the flag
		return nil
	}
	return among(modes, text)
}

// among refuses a text that is none of a list.
func among(all []string, text []byte) error {
	if !slices.Contains(all, string(text)) {
		return fmt.Errorf("must be one of %s, got %q", strings.Join(all, ", "), text)
	}
	return nil
}

// labels are the K=V pairs of a run.
type labels map[string]string

// Validate is called by kong.
func (l labels) Validate() error { return runs.LabelsOf(l).Check() }

// scopes is a flag that lists scopes of a token.
type scopes string

// Validate is called by kong.
func (s scopes) Validate() error {
	_, err := httpserver.ParseScopes(string(s))
	return err
}

// eventKind is a kind of event, spelled as in subjects.
type eventKind string

var allKinds = normalizer.Tokens()

// listed are the values of types that have a list of them.
var listed = map[reflect.Type][]string{
	reflect.TypeFor[[]eventKind](): allKinds, reflect.TypeFor[agentKind](): known.All().Names(),
	reflect.TypeFor[mode](): modes, reflect.TypeFor[*word](): {"allow", "deny", "decline", "cancel"},
}

// UnmarshalText accepts the existing kinds only.
func (k *eventKind) UnmarshalText(text []byte) error {
	*k = eventKind(text)
	return among(allKinds, text)
}
