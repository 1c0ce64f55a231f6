package launch

import (
	"slices"
	"strings"

	"github.com/linesman/linesman/runs"
)

// essential are the variables that a program needs to run. LC_* variables are
// added.
var essential = []string{
	"PATH", "HOME", "USER", "LOGNAME", "SHELL", "TMPDIR", "LANG", "LANGUAGE", "TZ", "TERM",
}

// ours is the prefix of linesman's own variables, which may hold credentials.
const ours = "LINESMAN_"

// secret are suffixes of words in the names of credentials; words are
// separated by underscores.
var secret = []string{"TOKEN", "SECRET", "PASSWORD", "PASSWD", "PASSPHRASE", "CREDENTIAL", "CREDENTIALS", "APIKEY"}

// Environ returns the environment of an agent: the variables of environ, the
// worker's own, that policy p allows. Variables named in always pass under
// every policy.
//
// A variable of linesman, or one with the name of a credential, passes only if
// it is named in always or in the list of [runs.InheritList]. The same holds
// for PWD and OLDPWD, which describe the directory of the worker, not of the
// agent. An unknown policy counts as [runs.InheritNone]. If a name occurs
// twice, the last value counts. The result is never nil, because in a worker's
// Spec nil means the whole environment.
func Environ(p runs.EnvPolicy, always, environ []string) []string {
	named := always
	if p.Policy == runs.InheritList {
		named = slices.Concat(always, p.Allow)
	}
	passes := func(name string) bool {
		switch {
		case slices.Contains(named, name):
			return true
		case strings.HasPrefix(name, ours), isSecret(name):
			return false
		case p.Policy == runs.InheritAll:
			return name != "PWD" && name != "OLDPWD"
		}
		return slices.Contains(essential, name) || strings.HasPrefix(name, "LC_")
	}

	env := make([]string, 0, len(environ))
	at := make(map[string]int, len(environ)) // index in env by name
	for _, variable := range environ {
		name, _, ok := strings.Cut(variable, "=")
		if !ok || name == "" || !passes(name) {
			continue
		}
		if i, twice := at[name]; twice {
			env[i] = variable
			continue
		}
		at[name] = len(env)
		env = append(env, variable)
	}
	return env
}

// Override returns env with variables in the form NAME=value, which replace those of the
// same name.
func Override(env, variables []string) []string {
	for _, v := range variables {
		name, _, _ := strings.Cut(v, "=")
		env = slices.DeleteFunc(env, func(old string) bool { return strings.HasPrefix(old, name+"=") })
		env = append(env, v)
	}
	return env
}

// Trace returns the variable by which an agent that traces itself joins the trace of its
// run, if the submitter of the task began one.
func Trace(t runs.QueuedTask) []string {
	if t.Labels.Value(runs.LabelTraceparent) == "" {
		return nil
	}
	own, _ := runs.TraceOf(t.Run, t.Labels)
	return []string{"TRACEPARENT=" + own.String()}
}

// Credentials splits an environment by the names of its variables: those of credentials, or of
// addresses and configurations, which may have one in them, and the others.
func Credentials(env []string) (credentials, others []string) {
	others = []string{}
	for _, v := range env {
		name, _, _ := strings.Cut(v, "=")
		if isSecret(name) || strings.HasSuffix(name, "_BASE_URL") || strings.HasSuffix(name, "_CONFIG_CONTENT") {
			credentials = append(credentials, v)
		} else {
			others = append(others, v)
		}
	}
	return credentials, others
}

// isSecret reports whether a variable has the name of a credential, such as
// GITHUB_TOKEN, AWS_ACCESS_KEY_ID or PGPASSWORD.
func isSecret(name string) bool {
	name = strings.ToUpper(name)
	if strings.HasSuffix(name, "_HEADERS") { // of HTTP requests: often a key
		return true
	}
	for word := range strings.SplitSeq(name, "_") {
		switch {
		case word == "KEY", word == "PASS", word == "PWD" && name != "PWD":
			return true
		case slices.ContainsFunc(secret, func(end string) bool { return strings.HasSuffix(word, end) }):
			return true
		}
	}
	return false
}
