package launch_test

import (
	"slices"
	"strings"
	"testing"

	"pgregory.net/rapid"

	"github.com/linesman/linesman/runs"
	"github.com/linesman/linesman/worker/launch"
)

func TestEnvironmentByPolicy(t *testing.T) {
	environ := []string{
		"PATH=/bin", "HOME=/h", "USER=u", "LOGNAME=u", "SHELL=/bin/sh", "TMPDIR=/t", "LANG=C", "LANGUAGE=en",
		"LC_ALL=C", "LC_TIME=C",
		"TZ=UTC", "TERM=dumb", "CODEX_HOME=/h/.codex", "PWD=/w", "OLDPWD=/",
		"OPENAI_API_KEY=k", "EXTRA=a=b\nc", "EMPTY=", "LCX=1", "LINESMAN_NATS=nats://u:p@h", "LINESMAN_X=1",
	}
	essential := environ[:13:13]
	with := func(more ...string) []string { return append(essential, more...) }
	for name, row := range map[string]struct {
		policy runs.EnvPolicy
		always []string
		want   []string
	}{
		"none": {
			policy: runs.EnvPolicy{Policy: runs.InheritNone},
			want:   with(),
		},
		"no policy is none": {
			want: with(),
		},
		"an unknown policy is none": {
			policy: runs.EnvPolicy{Policy: "everything", Allow: []string{"EXTRA"}},
			want:   with(),
		},
		"none, with configured variables": {
			policy: runs.EnvPolicy{Policy: runs.InheritNone},
			always: []string{"OPENAI_API_KEY", "LINESMAN_X", "ABSENT"},
			want:   with("OPENAI_API_KEY=k", "LINESMAN_X=1"),
		},
		"none ignores the list": {
			policy: runs.EnvPolicy{Policy: runs.InheritNone, Allow: []string{"EXTRA"}},
			want:   with(),
		},
		"list": {
			policy: runs.EnvPolicy{Policy: runs.InheritList, Allow: []string{"EXTRA", "EMPTY", "ABSENT", "PATH"}},
			always: []string{"OPENAI_API_KEY"},
			want:   with("OPENAI_API_KEY=k", "EXTRA=a=b\nc", "EMPTY="),
		},
		"list names one of linesman's own": {
			policy: runs.EnvPolicy{Policy: runs.InheritList, Allow: []string{"LINESMAN_X", "PWD"}},
			want:   with("PWD=/w", "LINESMAN_X=1"),
		},
		"a name is no pattern": {
			policy: runs.EnvPolicy{Policy: runs.InheritList, Allow: []string{"LINESMAN_", "EXT", "*", "extra", ""}},
			want:   with(),
		},
		"all": {
			policy: runs.EnvPolicy{Policy: runs.InheritAll},
			want:   with("EXTRA=a=b\nc", "EMPTY=", "LCX=1"),
		},
		"all ignores the list": {
			policy: runs.EnvPolicy{Policy: runs.InheritAll, Allow: []string{"LINESMAN_X", "OPENAI_API_KEY"}},
			want:   with("EXTRA=a=b\nc", "EMPTY=", "LCX=1"),
		},
		"all, with configured variables": {
			policy: runs.EnvPolicy{Policy: runs.InheritAll},
			always: []string{"LINESMAN_X", "OPENAI_API_KEY"},
			want:   with("OPENAI_API_KEY=k", "EXTRA=a=b\nc", "EMPTY=", "LCX=1", "LINESMAN_X=1"),
		},
	} {
		t.Run(name, func(t *testing.T) {
			if got := launch.Environ(row.policy, append(row.always, "CODEX_HOME"), environ); !slices.Equal(got, row.want) {
				t.Errorf("got  %q\nwant %q", got, row.want)
			}
		})
	}
}

// The policy that inherits everything does not include credentials.
func TestCredentialsPassOnlyWhenNamed(t *testing.T) {
	secrets := []string{"GITHUB_TOKEN", "OPENAI_API_KEY", "AWS_ACCESS_KEY_ID", "AWS_SECRET_ACCESS_KEY", "PGPASSWORD",
		"npm_token", "X_PASSWD", "SECRETS_TOKEN_1", "DB_CREDENTIALS", "GHTOKEN", "APIKEY", "DB_PASS", "MYSQL_PWD",
		"OTEL_EXPORTER_OTLP_HEADERS", "OTEL_EXPORTER_OTLP_TRACES_HEADERS",
		"ANTHROPIC_CUSTOM_HEADERS"}
	plain := []string{"MONKEY", "KEYBOARD", "TOKENIZERS_PARALLELISM", "SSH_AUTH_SOCK", "GOPATH", "HTTPS_PROXY",
		"COMPASS", "BYPASS_CACHE",
		"OTEL_EXPORTER_OTLP_ENDPOINT"}
	all := runs.EnvPolicy{Policy: runs.InheritAll}
	for _, name := range secrets {
		for _, c := range []struct {
			policy runs.EnvPolicy
			always []string
			want   int
		}{
			{all, nil, 0}, {all, []string{name}, 1}, {runs.EnvPolicy{}, nil, 0},
			{runs.EnvPolicy{Policy: runs.InheritList, Allow: []string{name}}, nil, 1},
		} {
			if got := launch.Environ(c.policy, c.always, []string{name + "=x"}); len(got) != c.want {
				t.Errorf("%+v, always %q: got %q", c.policy, c.always, got)
			}
		}
	}
	for _, name := range plain {
		if got := launch.Environ(all, nil, []string{name + "=x"}); len(got) != 1 {
			t.Errorf("%s does not pass", name)
		}
	}
}

// In os/exec and in a Spec, nil means the whole environment of the worker.
func TestEmptyEnvironmentIsNotNil(t *testing.T) {
	if got := launch.Environ(runs.EnvPolicy{}, nil, nil); got == nil || len(got) != 0 {
		t.Errorf("got %#v, want an empty one that is not nil", got)
	}
}

func TestLastValueOfANameCounts(t *testing.T) {
	got := launch.Environ(runs.EnvPolicy{Policy: runs.InheritAll}, nil,
		[]string{"A=1", "B=1", "A=2", "nonsense", "=C:=c", "A=3"})
	if want := []string{"A=3", "B=1"}; !slices.Equal(got, want) {
		t.Errorf("got %q, want %q", got, want)
	}
}

func TestOwnVariablesPassOnlyWhenNamed(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		name := rapid.SampledFrom([]string{"PATH", "LC_ALL", "A", "LINESMAN_A", "LINESMAN_NATS", "CODEX_HOME", "PWD"})
		names := rapid.SliceOf(name)
		policy := runs.EnvPolicy{
			Policy: rapid.SampledFrom([]string{"", "x", runs.InheritNone, runs.InheritAll, runs.InheritList}).Draw(t, "policy"),
			Allow:  names.Draw(t, "allow"),
		}
		always := names.Draw(t, "always")
		var environ []string
		for i, n := range names.Draw(t, "environ") {
			environ = append(environ, n+"="+strings.Repeat("x", i))
		}
		seen := map[string]bool{}
		for _, variable := range launch.Environ(policy, always, environ) {
			n, _, _ := strings.Cut(variable, "=")
			if seen[n] || !slices.Contains(environ, variable) {
				t.Errorf("%q twice, or made up", variable)
			}
			seen[n] = true
			named := slices.Contains(always, n) || policy.Policy == runs.InheritList && slices.Contains(policy.Allow, n)
			if strings.HasPrefix(n, "LINESMAN_") && !named {
				t.Errorf("%q passes under %+v, always %q", n, policy, always)
			}
		}
		for _, variable := range environ {
			if n, _, _ := strings.Cut(variable, "="); slices.Contains(always, n) && !seen[n] {
				t.Errorf("%q does not pass, always %q", n, always)
			}
		}
	})
}

func TestCredentialsAreSplitFromTheOthers(t *testing.T) {
	credentials := []string{"X_API_KEY=k=v", "Y_TOKEN=",
		"OPENCODE_CONFIG_CONTENT={}", "ANTHROPIC_BASE_URL=https://u:p@h", "Z_headers=k"}
	keys, others := launch.Credentials(slices.Concat([]string{"A=1"}, credentials[:1], []string{"B="}, credentials[1:]))
	if !slices.Equal(keys, credentials) || !slices.Equal(others, []string{"A=1", "B="}) {
		t.Errorf("got %q and %q", keys, others)
	}
	if _, others := launch.Credentials(nil); others == nil {
		t.Error("an environment of nil: nothing is everything")
	}
}
