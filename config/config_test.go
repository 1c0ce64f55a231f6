package config

import (
	"fmt"
	"os"
	"path/filepath"
	"reflect"
	"slices"
	"strings"
	"testing"
	"time"

	"pgregory.net/rapid"
)

var home = []string{"HOME=/home/ada"}

func TestDefaultsAreValid(t *testing.T) {
	got, err := Load(Sources{Environ: home})
	want := Default()
	want.DataDir = "/home/ada/.local/share/linesman"
	want.Environments = "/home/ada/.config/mcp-delegator/environments.json"
	if err != nil || !reflect.DeepEqual(got, want) {
		t.Errorf("got %+v, %v\nwant %+v", got, err, want)
	}
}

func TestExampleIsTheDefault(t *testing.T) {
	got, err := Load(Sources{File: file(t, example()), Environ: home})
	want := Default()
	want.DataDir = "/home/ada/.local/share/linesman"
	want.Environments = "/home/ada/.config/mcp-delegator/environments.json"
	if err != nil || !reflect.DeepEqual(got, want) {
		t.Errorf("got %+v, %v\nwant %+v", got, err, want)
	}
	for _, s := range Settings() {
		if !strings.Contains(example(), "# "+s.Env()+"\n") {
			t.Errorf("the example does not mention %s", s.Env())
		}
	}
}

// The documented file is the example. UPDATE_EXAMPLE=1 writes it.
func TestSettingsFileIsTheExample(t *testing.T) {
	const path = "../docs/linesman.toml"
	if os.Getenv("UPDATE_EXAMPLE") == "1" {
		if err := os.WriteFile(path, []byte(example()), 0o644); err != nil {
			t.Fatal(err)
		}
	}
	if got, err := os.ReadFile(path); err != nil || string(got) != example() {
		t.Errorf("%s is not the example (%v):\n%s", path, err, example())
	}
}

func TestPrecedenceOfSources(t *testing.T) {
	path := file(t, "replicas = 3\nprefix = 'from-file'\n[raw]\nmax_age = '1h'\nmax_bytes = 2097152\n"+
		"[limits]\nidle = '1s'")
	env := append(home, "LINESMAN_PREFIX=from-env", "LINESMAN_RAW_MAX_AGE=2h", "LINESMAN_LIMITS_IDLE=2s",
		"LINESMAN_CONFIG="+path)
	got, err := Load(Sources{Environ: env, Flags: []Flag{{"limits.idle", "3s", "--idle-timeout"}}})
	if err != nil {
		t.Fatal(err)
	}
	want := Default()
	want.DataDir = "/home/ada/.local/share/linesman"
	want.Environments = "/home/ada/.config/mcp-delegator/environments.json"
	want.Replicas = 3                  // only in the file
	want.Raw.MaxBytes = 2 << 20        // only in the file
	want.Prefix = "from-env"           // environment over file
	want.Raw.MaxAge = 2 * time.Hour    // environment over file
	want.Limits.Idle = 3 * time.Second // flag over both
	if !reflect.DeepEqual(got, want) {
		t.Errorf("got  %+v\nwant %+v", got, want)
	}
}

// Without a named file that of the user is read, and over it that of the data directory, which
// the file of the user may name.
func TestFilesThatAreReadByDefault(t *testing.T) {
	home, xdg, data := t.TempDir(), t.TempDir(), t.TempDir()
	write := func(dir, text string) string {
		t.Helper()
		path := filepath.Join(dir, "config.toml")
		if err := os.MkdirAll(dir, 0o700); err != nil {
			t.Fatal(err)
		}
		if err := os.WriteFile(path, []byte(text), 0o600); err != nil {
			t.Fatal(err)
		}
		return path
	}
	mine := write(filepath.Join(home, ".config", "linesman"),
		fmt.Sprintf("prefix = 'mine'\nreplicas = 3\ndata_dir = %q", data))
	its := write(data, "replicas = 1\nlog_level = 'warn'")
	environ := []string{"HOME=" + home}
	rows, err := Effective(Sources{Environ: append(environ, "LINESMAN_LOG_LEVEL=error"),
		Flags: []Flag{{"work.max_runs", "7", "--max-runs"}}})
	if err != nil {
		t.Fatal(err)
	}
	for key, want := range map[string]struct {
		value string
		from  origin
	}{
		"prefix":        {"mine", origin{sourceFile, mine}},
		"replicas":      {"1", origin{sourceFile, its}},
		"log_level":     {"error", origin{SourceEnvironment, "LINESMAN_LOG_LEVEL"}},
		"work.max_runs": {"7", origin{SourceFlag, "--max-runs"}},
		"data_dir":      {data, origin{sourceFile, mine}},
		"http":          {"127.0.0.1:8422", origin{SourceDefault, ""}},
	} {
		i := slices.IndexFunc(rows, func(s Setting) bool { return s.Key == key })
		if got := rows[i]; got.Value() != want.value || got.Origin != want.from {
			t.Errorf("%s is %s, from %v; want %s, from %v", key, got.Value(), got.Origin, want.value, want.from)
		}
	}
	overridden := append(environ, "LINESMAN_LOG_LEVEL=error") // its other setting is not read again
	if got := InUse(Sources{Environ: overridden}); !slices.Equal(got, []string{mine}) {
		t.Errorf("files in use %q, want %q", got, mine)
	}
	got := InUse(Sources{Environ: environ})
	if len(got) != 2 || !slices.Contains(got, mine) || !slices.Contains(got, its) {
		t.Errorf("files in use %q, want %q and %q", got, mine, its)
	}
	gone := filepath.Join(data, "gone", "config.toml")
	for _, required := range []string{its, gone} {
		_, err := Load(Sources{Environ: environ, Flags: []Flag{{"data_dir", filepath.Dir(gone), "--data-dir"}},
			Required: []string{required}})
		if (err != nil) != (required == gone) || err != nil && !(strings.Contains(err.Error(), gone) &&
			strings.Contains(err.Error(), "make it an empty file")) {
			t.Errorf("%s is required: %v", required, err)
		}
	}
	if got := Files(Sources{Environ: environ}); !slices.Equal(got, []string{mine, its}) {
		t.Errorf("files %q, want %q", got, []string{mine, its})
	}

	for name, c := range map[string]struct {
		from  Sources
		files []string
		edit  string
	}{
		"XDG_CONFIG_HOME": {Sources{Environ: append(environ, "XDG_CONFIG_HOME="+xdg)},
			[]string{filepath.Join(xdg, "linesman", "config.toml"), filepath.Join(home, ".local", "share", "linesman", "config.toml")},
			filepath.Join(xdg, "linesman", "config.toml")},
		"another data directory": {Sources{Environ: environ, Flags: []Flag{{"data_dir", xdg, "--data-dir"}}},
			[]string{mine, filepath.Join(xdg, "config.toml")}, mine},
		"a named file": {Sources{Environ: environ, File: its}, []string{its}, its},
		"no home":      {Sources{Environ: []string{"LINESMAN_DATA_DIR=" + data}}, []string{its}, its},
	} {
		files := Files(c.from)
		if edit, err := EditFile(c.from); !slices.Equal(files, c.files) || edit != c.edit || err != nil {
			t.Errorf("%s: %q, and %q to edit, %v; want %q and %q", name, files, edit, err, c.files, c.edit)
		}
	}
	if got, err := Load(Sources{Environ: environ, File: file(t, "")}); err != nil || got.Prefix != "linesman" {
		t.Errorf("a named file is the only one: %v, %v", got.Prefix, err)
	}

	write(data, "data_dir = '/elsewhere'\ncolour = 'red'")
	_, err = Load(Sources{Environ: environ})
	for _, want := range []string{"data_dir: cannot be set in a file of the data directory (" + its + ")",
		"colour: no such setting (" + its + ")"} {
		if err == nil || !strings.Contains(err.Error(), want) {
			t.Errorf("got %v, want %s", err, want)
		}
	}
}

func TestFlagOverridesFileOfTheEnvironment(t *testing.T) {
	got, err := Load(Sources{File: file(t, "prefix = 'flag'"),
		Environ: append(home, "LINESMAN_CONFIG="+file(t, "prefix = 'env'"))})
	if err != nil || got.Prefix != "flag" {
		t.Errorf("got prefix %q, %v; want that of the flag's file", got.Prefix, err)
	}
}

func TestAllErrorsAreReported(t *testing.T) {
	path := file(t, "colour = 'red'\nreplicas = 2\nlog_level = true\nprefix = 'UPPER'\nraw = 3\n"+
		"[limits]\ngrace = '0s'\nsoft = '1s'\n[nats]\nurl = 'x'\n[[list]]\na = 1")
	_, err := Load(Sources{
		File: path,
		Environ: append(home, "LINESMAN_RAW_MAXAGE=1h", "LINESMAN_MAX_LINE_BYTES=1KiB", "LINESMAN_EVENTS_MAX_AGE=3x",
			"LINESMAN_PORTS=tcp://10.0.0.1:1", "OTHER_THING=1"),
		Flags: []Flag{{"nats", "http://ada:secret@x", "--nats"}, {"nats_listen", "4222", "--nats-listen"}},
	})
	if err == nil {
		t.Fatal("no error")
	}
	want := []string{
		`colour: no such setting (` + path + `)`,
		`limits.soft: no such setting (` + path + `)`,
		`list: no such setting (` + path + `)`,
		`log_level: must be a string or a whole number, got true (` + path + `)`,
		`nats: must be a value, got a table (` + path + `)`,
		`raw: no such setting (` + path + `)`,
		`LINESMAN_PORTS: no such setting`,
		`LINESMAN_RAW_MAXAGE: no such setting`,
		`events.max_age: not a duration such as 30s, 5m or 72h, got "3x" (LINESMAN_EVENTS_MAX_AGE)`,
		`nats: must be URLs such as nats://host:4222 (or tls, ws, wss), separated by commas, got "…@x" (--nats)`,
		`prefix: must be a lower-case letter, then at most 31 of a-z 0-9 _ -, got "UPPER" (` + path + `)`,
		`nats_listen: must be host:port with a port from 0 to 65535, got "4222" (--nats-listen)`,
		`max_line_bytes: must be from 64KiB to 64MiB, got 1KiB (LINESMAN_MAX_LINE_BYTES)`,
		`replicas: must be 1 or 3, got 2 (` + path + `)`,
		`limits.grace: must be positive, got 0s (` + path + `)`,
	}
	got := strings.Split(err.Error(), "\n")
	slices.Sort(got)
	slices.Sort(want)
	if !slices.Equal(got, want) {
		t.Errorf("got\n%s\nwant\n%s", strings.Join(got, "\n"), strings.Join(want, "\n"))
	}
	if strings.Contains(err.Error(), "secret") {
		t.Error("the error shows a password")
	}
}

func TestLimitsOfSettings(t *testing.T) {
	for _, tt := range []struct{ key, good, bad string }{
		{"nats", "nats://a:4222,tls://b", "nats://"},
		{"nats", "wss://x:443/path", "x:4222"},
		{"nats", "", "nats://a:99999"},
		{"prefix", "a", ""},
		{"prefix", "a" + strings.Repeat("b", 31), "a" + strings.Repeat("b", 32)},
		{"prefix", "lines-man_2", "a.b"},
		{"prefix", "a", "a\n"},
		{"log_level", "debug", "trace"},
		{"log_format", "json", "JSON"},
		{"nats_listen", "0.0.0.0:0", "127.0.0.1:65536"},
		{"nats_listen", "[::1]:65535", "::1:1:"},
		{"max_line_bytes", "64KiB", "65535"},
		{"max_line_bytes", "64MiB", "64MiB1"},
		{"replicas", "3", "0"},
		{"memory", "300MiB", "1MiB"},
		{"raw.max_age", "1ns", "0s"},
		{"events.max_bytes", "0", "1023KiB"},
		{"runs.max_bytes", "1MiB", "-1"},
		{"spool.max_bytes", "8MiB", "8191KiB"},
		{"limits.grace", "1ms", "-1s"},
		{"limits.idle", "0s", "-1s"},
		{"limits.hard", "20m", "-1ns"},
	} {
		if _, err := Load(Sources{Environ: home, Flags: []Flag{{tt.key, tt.good, "--x"}}}); err != nil {
			t.Errorf("%s = %q: %v", tt.key, tt.good, err)
		}
		_, err := Load(Sources{Environ: home, Flags: []Flag{{tt.key, tt.bad, "--x"}}})
		if err == nil || !strings.HasPrefix(err.Error(), tt.key+": ") || !strings.HasSuffix(err.Error(), " (--x)") {
			t.Errorf("%s = %q: got error %v, want one with setting and source", tt.key, tt.bad, err)
		}
	}
}

func TestDataDirFollowsXDG(t *testing.T) {
	for _, tt := range []struct {
		env  []string
		flag string
		want string // "" for an error
	}{
		{env: []string{"HOME=/h", "XDG_DATA_HOME=/x"}, want: "/x/linesman"},
		{env: []string{"HOME=/h", "XDG_DATA_HOME=relative"}, want: "/h/.local/share/linesman"},
		{env: []string{"HOME=/h", "HOME=/second"}, want: "/h/.local/share/linesman"},
		{env: []string{"HOME=/h", "LINESMAN_DATA_DIR=~/mine"}, want: "/h/mine"},
		{env: nil, flag: "/d", want: "/d"},
		{env: nil, want: ""},
	} {
		var flags []Flag
		if tt.flag != "" {
			flags = []Flag{{"data_dir", tt.flag, "--data-dir"}}
		}
		got, err := Load(Sources{Environ: tt.env, Flags: flags})
		if got.DataDir != tt.want || (err == nil) != (tt.want != "") {
			t.Errorf("%v: got %q, %v; want %q", tt.env, got.DataDir, err, tt.want)
		}
	}
	got, err := Load(Sources{Environ: home, Flags: []Flag{{"creds", "here.creds", "--creds"}}})
	if err != nil || !filepath.IsAbs(got.Creds) {
		t.Errorf("got creds %q, %v; want an absolute path", got.Creds, err)
	}
}

func TestUnreadableFileIsAnError(t *testing.T) {
	if _, err := Load(Sources{Environ: home, File: filepath.Join(t.TempDir(), "none.toml")}); err == nil {
		t.Error("no error for a missing file")
	}
	if _, err := Load(Sources{Environ: home, File: file(t, "replicas = = 1")}); err == nil ||
		!strings.Contains(err.Error(), "line 1") {
		t.Errorf("got %v, want an error with the line number", err)
	}
}

func TestSizeTexts(t *testing.T) {
	for text, want := range map[string]size{
		"0": 0, "512": 512, "64KiB": 64 << 10, "8 MiB": 8 << 20, "8mib": 8 << 20, "1GiB": 1 << 30, "2TiB": 2 << 40,
		"1kB": 1000, "5MB": 5_000_000, "3B": 3, "9223372036854775807": 1<<63 - 1,
	} {
		if got, err := parseSize(text); err != nil || got != want {
			t.Errorf("%q: got %d, %v; want %d", text, got, err, want)
		}
	}
	for _, text := range []string{"", "MiB", "-1", "1.5GiB", "1 0", "8Mi", "9223372036854775808",
		"9007199254740992KiB", "0x10", "1_000"} {
		got := size(7)
		s := Setting{target: &got}
		if problem := s.parse(text); problem == "" || got != 7 {
			t.Errorf("%q: got %d, %q; want an error and no change", text, got, problem)
		}
	}
}

func TestSizeRoundTrip(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		want := size(rapid.Int64Min(0).Draw(t, "n"))
		if rapid.Bool().Draw(t, "round") {
			want = want >> 30 << 30
		}
		if got, err := parseSize(want.String()); err != nil || got != want {
			t.Fatalf("%s: got %d, %v; want %d", want, got, err, want)
		}
	})
}

func TestDurationRoundTrip(t *testing.T) {
	for _, tt := range []string{"0s", "5s", "5m", "72h", "1h30m", "10h0m1s", "90ms", "720h", "20m"} {
		d, err := time.ParseDuration(tt)
		if err != nil || shortDuration(d) != tt {
			t.Errorf("%s: got %s, %v", tt, shortDuration(d), err)
		}
	}
}

func TestListsAreArraysOrSeparatedByCommas(t *testing.T) {
	path := file(t, "[agents.codex]\ncommand = ['my codex', '-c', 'a=1,b=2']\n[work]\ndanger = true\nroots = ['/srv']")
	got, err := Load(Sources{File: path, Environ: append(home, "LINESMAN_WORK_ROOTS=~/a, /b",
		"LINESMAN_AGENTS_CODEX_ENV=[\"A,B\"]")})
	if err != nil {
		t.Fatal(err)
	}
	want := []List{{"my codex", "-c", "a=1,b=2"}, {"/home/ada/a", "/b"}, {"A,B"}}
	lists := []List{got.Agents["codex"].Command, got.Work.Roots, got.Agents["codex"].Env}
	if !reflect.DeepEqual(lists, want) || !got.Work.Danger {
		t.Errorf("got %q %v, want %q", lists, got.Work.Danger, want)
	}
	for _, bad := range []string{"[agents.codex]\ncommand = []", "[agents.codex]\ncommand = [1]",
		"[work]\ndanger = 'perhaps'", "prefix = ['a']", "nope = ['a']"} {
		if _, err := Load(Sources{File: file(t, bad), Environ: home}); err == nil {
			t.Errorf("%q was accepted", bad)
		}
	}
}

// Kubernetes sets variables in every pod for a service named linesman, and for one named linesman-responder.
func TestVariablesOfAKubernetesServiceAreIgnored(t *testing.T) {
	names := []string{
		"SERVICE_HOST", "SERVICE_PORT", "SERVICE_PORT_HTTP", "SERVICE_PORT_NATS_CLIENT", "PORT",
		"PORT_4222_TCP", "PORT_4222_TCP_ADDR",
		"PORT_4222_TCP_PORT", "PORT_4222_TCP_PROTO", "PORT_53_UDP",
	}
	for _, service := range []string{"", "RESPONDER_"} {
		environ := slices.Clone(home)
		for _, name := range names {
			environ = append(environ, "LINESMAN_"+service+name+"=tcp://10.0.0.1:4222")
		}
		if _, err := Load(Sources{Environ: environ}); err != nil {
			t.Error(err)
		}
		for _, name := range []string{"LINESMAN_" + service + "PORT_X", "LINESMAN_X_PORT", "LINESMAN_RESPONDERPORT"} {
			if _, err := Load(Sources{Environ: append(slices.Clone(environ), name+"=1")}); err == nil {
				t.Errorf("%s is not an error", name)
			}
		}
	}
	for _, name := range []string{"LINESMAN_RESPONDER_PORT", "LINESMAN_PORT_X", "LINESMAN_PORT_4222", "LINESMAN_SERVICE",
		"LINESMAN_SERVICE_NAME",
		"LINESMAN_PORT_4222_TCP_HOST"} {
		if _, err := Load(Sources{Environ: append(slices.Clone(home), name+"=1")}); err == nil {
			t.Errorf("%s is not an error", name)
		}
	}
}

// A file of any bytes results in errors or settings. The text of each setting
// survives a round trip.
func FuzzFile(f *testing.F) {
	f.Add([]byte(example()))
	f.Add([]byte("raw = 1\n[raw]\n"))
	f.Add([]byte("a.b.c = [1, {x = 2}]\nreplicas = 1e3"))
	f.Add([]byte("replicas = -7\n[raw]\nmax_age = '1h1ns'\nmax_bytes = '3 MiB'"))
	f.Fuzz(func(t *testing.T, text []byte) {
		var got, again Config
		first, second := newLoader(&got), newLoader(&again)
		first.text(text, "fuzz.toml")
		for _, s := range got.settings() {
			second.set(s.Key, s.Value(), origin{})
		}
		if len(second.errs) > 0 || !reflect.DeepEqual(again, got) {
			t.Errorf("got %+v, read back %+v, %v", got, again, second.errs)
		}
	})
}

func file(t *testing.T, text string) string {
	t.Helper()
	path := filepath.Join(t.TempDir(), "linesman.toml")
	if err := os.WriteFile(path, []byte(text), 0o600); err != nil {
		t.Fatal(err)
	}
	return path
}

// example returns a TOML file with the description and the default of every
// setting. [Load] of this file returns [Default].
func example() string {
	const header = `# Settings of linesman. Flags take precedence over environment variables,
# and these over this file. Sizes are written 512, 64KiB, 8MiB, 1GiB;
# durations 30s, 5m, 72h.
`
	var b strings.Builder
	b.WriteString(header)
	table := ""
	for _, s := range Settings() {
		name := s.Key
		if dot := strings.LastIndexByte(s.Key, '.'); dot >= 0 {
			t, rest := s.Key[:dot], s.Key[dot+1:]
			if t != table {
				table = t
				fmt.Fprintf(&b, "\n[%s]\n", table)
			}
			name = rest
		}
		value := s.Value()
		switch v := s.target.(type) { // no default needs escaping
		case *int, *bool, *profiles:
		case *List:
			value = "[]"
			if len(*v) > 0 {
				value = `["` + strings.Join(*v, `", "`) + `"]`
			}
		default:
			value = `"` + value + `"`
		}
		fmt.Fprintf(&b, "\n# %s\n# %s\n%s = %s\n", s.Help, s.Env(), name, value)
	}
	return b.String()
}

func TestCellsArePrefixes(t *testing.T) {
	got, err := Load(Sources{Environ: append(home, "LINESMAN_CELLS=alpha,team-b")})
	if want := (List{"alpha", "team-b"}); err != nil || !reflect.DeepEqual(got.Cells, want) {
		t.Errorf("got %q, %v, want %q", got.Cells, err, want)
	}
	for _, wrong := range []string{"alpha,BETA", "a.b"} {
		if _, err := Load(Sources{Environ: append(home, "LINESMAN_CELLS="+wrong)}); err == nil {
			t.Errorf("%q is accepted", wrong)
		}
	}
}

func TestSettingsOfSignaturesAreValidTogetherOnly(t *testing.T) {
	for _, tt := range []struct{ key, brand, problem string }{
		{"", "", ""}, {"k.pem", "https://h.example/brand.json", ""},
		{"k.pem", "", "adcp.webhook_key: must be set together"}, {"", "https://h.example/", "adcp.webhook_key: must be set together"},
		{"k.pem", "http://h.example/", "adcp.brand_json_url: must be a URL that begins with https://"},
		{"k.pem", "https:///brand.json", "adcp.brand_json_url: must be"},
		{"k.pem", "https://a:b@h.example/", "adcp.brand_json_url: must be"},
		{"k.pem", "https://h.example/" + strings.Repeat("x", 2048), "adcp.brand_json_url: must be"},
	} {
		env := slices.Clone(home)
		for name, value := range map[string]string{"WEBHOOK_KEY": tt.key, "BRAND_JSON_URL": tt.brand} {
			if value != "" {
				env = append(env, "LINESMAN_ADCP_"+name+"="+value)
			}
		}
		c, err := Load(Sources{Environ: env})
		if (err != nil) != (tt.problem != "") || err != nil && !strings.Contains(err.Error(), tt.problem) {
			t.Errorf("%+v: %v", tt, err)
		}
		if err == nil && tt.key != "" && !filepath.IsAbs(c.AdCP.WebhookKey) {
			t.Errorf("path %s", c.AdCP.WebhookKey)
		}
	}
}
