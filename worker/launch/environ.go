package launch

import (
	"slices"
	"strings"

	"github.com/linesman/linesman/runs"
)

// essential are the variables that a program needs to run, and the one by
// which codex finds its configuration, login and threads. LC_* comes on top.
var essential = []string{
	"PATH", "HOME", "USER", "LOGNAME", "SHELL", "TMPDIR", "LANG", "LANGUAGE", "TZ", "TERM",
	"CODEX_HOME",
}

// ours begins the names of linesman's own variables, which may hold
// credentials.
const ours = "LINESMAN_"

// secret are the last parts of words, as between underscores, of which names
// of credentials have one.
var secret = []string{"TOKEN", "SECRET", "PASSWORD", "PASSWD", "PASSPHRASE", "CREDENTIAL", "CREDENTIALS", "APIKEY"}

// Environ is the environment of an agent: what policy p lets through of
// environ, the worker's own. The names in always pass under every policy.
//
// A variable of linesman's own, or one whose name says that it holds a
// credential, passes only when it is named: in always, or in the list of
// [runs.InheritList]. PWD and OLDPWD tell of the worker's
// directory, not of the agent's, and pass only when named, too. A policy that
// is not known is [runs.InheritNone]. Of a name that occurs twice the last
// value counts. The result is never nil, which in a worker's Spec would mean
// the whole environment.
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
	at := make(map[string]int, len(environ)) // where env has a name
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

// isSecret reports whether the name of a variable says that it holds a
// credential, as that of GITHUB_TOKEN, AWS_ACCESS_KEY_ID and PGPASSWORD does.
func isSecret(name string) bool {
	for word := range strings.SplitSeq(strings.ToUpper(name), "_") {
		if word == "KEY" || slices.ContainsFunc(secret, func(end string) bool { return strings.HasSuffix(word, end) }) {
			return true
		}
	}
	return false
}
