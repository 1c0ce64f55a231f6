package setup_test

import (
	"bytes"
	"errors"
	"os"
	"os/exec"
	"path/filepath"
	"reflect"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/nats-io/nats-server/v2/conf"
	"github.com/nats-io/nats-server/v2/server"

	"github.com/linesman/linesman/cmd/setup"
)

func TestNodes(t *testing.T) {
	t.Parallel()
	a := setup.Node{Name: "a", Host: "a", Port: 4222}
	for list, want := range map[string][]setup.Node{
		"a": {a},
		"a, b=10.0.0.2,c=nats.example.org:5222": {a, {Name: "b", Host: "10.0.0.2", Port: 4222},
			{Name: "c", Host: "nats.example.org", Port: 5222}},
		"a=[::1]:4300": {{Name: "a", Host: "::1", Port: 4300}},
		"a=127.0.0.1:4222,b=127.0.0.1:4223,c=127.0.0.1:4224": {{Name: "a", Host: "127.0.0.1", Port: 4222},
			{Name: "b", Host: "127.0.0.1", Port: 4223}, {Name: "c", Host: "127.0.0.1", Port: 4224}},

		"": nil, "a,b": nil, "a,a,b": nil, "a,b=a,c": nil, "a=x:0": nil, "a=x:70000": nil, "a=x:y": nil, "../a": nil,
		"a b": nil, "a;rm": nil, "a=h\"}": nil, "linesman": nil, "linesman-tls": nil, ".": nil, "-c": nil,
		"a=": nil, "=a": nil,
		"a=x:4222,b=x:6222,c=x:1": nil,
		strings.Repeat("a", 65):   nil, "a,b,c,d": nil,
	} {
		got, err := setup.ParseNodes(list)
		if (err == nil) != (want != nil) || err == nil && !slices.Equal(got, want) {
			t.Errorf("%q: %v, %v; want %v", list, got, err, want)
		}
	}
}

// TestEveryConfigurationIsReadAsWritten has the server itself read what is written.
func TestEveryConfigurationIsReadAsWritten(t *testing.T) {
	t.Parallel()
	for list, store := range map[string]string{
		"a,b,c":                "/var/lib/nats",
		"nats-0,nats_1,2.x.y":  `/with "quotes" and \`,
		"0,true,include":       "/mit Umlaut ü",
		"size=10mb,b=1e9,c=::": "/with $variable and # and {",
		"a,bidi,c":             "/\u202e\a\t\n\r\x1b\xff\\u",
	} {
		dir := t.TempDir()
		nodes, err := setup.ParseNodes(strings.Replace(list, "=::", "=[::1]:4222", 1))
		if err != nil {
			t.Fatal(err)
		}
		if _, err := setup.NATS(setup.Config{Dir: dir, Nodes: nodes, Store: store, Prefix: "linesman"}); err != nil {
			t.Fatal(err)
		}
		for _, n := range nodes {
			o, err := server.ProcessConfigFile(filepath.Join(dir, "servers", n.Name+".conf"))
			if err != nil {
				t.Fatalf("%s: %v", n.Name, err)
			}
			if o.ServerName != n.Name || o.StoreDir != filepath.Join(store, n.Name) || len(o.Routes) != 3 ||
				o.Cluster.PingInterval != 5*time.Second || o.Cluster.Password == "" || o.Port != 4222 ||
				o.Cluster.Port != 6222 || len(o.TrustedOperators) != 1 {
				t.Fatalf("%s was read as %+v", n.Name, o)
			}
		}
	}
}

// TestTLSStays sets up again what has TLS, as an upgrade does.
func TestTLSStays(t *testing.T) {
	t.Parallel()
	dir := t.TempDir()
	nodes, err := setup.ParseNodes("a,b,c")
	if err != nil {
		t.Fatal(err)
	}
	again := func(tls string) error {
		done, err := setup.NATS(setup.Config{Dir: dir, Nodes: nodes, Store: "/var/lib/nats", TLS: tls, Prefix: "linesman"})
		if err == nil && done.NATS != "tls://a:4222,tls://b:4222,tls://c:4222" {
			t.Errorf("with %q the servers are at %s", tls, done.NATS)
		}
		return err
	}
	servers := filepath.Join(dir, "servers")
	const files = `/etc/nats/"tls"`
	if err := again(files); err != nil {
		t.Fatal(err)
	}
	edited, err := os.OpenFile(filepath.Join(servers, "linesman-tls.conf"), os.O_APPEND|os.O_WRONLY, 0)
	if err != nil {
		t.Fatal(err)
	}
	if _, err := edited.WriteString("min_version: \"1.3\"\n"); err != nil {
		t.Fatal(err)
	}
	if err := errors.Join(edited.Close(), again(""), again(files)); err != nil {
		t.Fatal(err)
	}
	if err := again("/elsewhere"); err == nil || !strings.Contains(err.Error(), "linesman-tls.conf does not name") {
		t.Errorf("with other files: %v", err)
	}
	want := map[string]any{"cert_file": files + "/server.pem", "key_file": files + "/server-key.pem",
		"ca_file": files + "/ca.pem", "min_version": "1.3"}
	for _, n := range nodes {
		read, err := conf.ParseFile(filepath.Join(servers, n.Name+".conf"))
		if err != nil {
			t.Fatal(err)
		}
		routes, _ := read["cluster"].(map[string]any)
		if !reflect.DeepEqual(read["tls"], want) || !reflect.DeepEqual(routes["tls"], want) {
			t.Errorf("%s: clients have %v, the other servers %v", n.Name, read["tls"], routes["tls"])
		}
	}
	if err := os.Remove(filepath.Join(servers, "linesman-tls.conf")); err != nil {
		t.Fatal(err)
	}
	if err := again(""); err == nil || !strings.Contains(err.Error(), "a.conf has a block tls, which would be lost") {
		t.Errorf("without linesman-tls.conf: %v", err)
	}
	for _, r := range setup.Roles {
		settings, err := os.ReadFile(filepath.Join(dir, r.Name, "linesman.toml"))
		if err != nil || !bytes.Contains(settings, []byte("tls://a:4222")) || bytes.Contains(settings, []byte("nats://")) {
			t.Errorf("%s: %v\n%s", r.Name, err, settings)
		}
	}
}

// TestTLSOfOnesOwnIsNotRemoved has blocks in the files that are written again.
func TestTLSOfOnesOwnIsNotRemoved(t *testing.T) {
	t.Parallel()
	nodes, err := setup.ParseNodes("a,b,c")
	if err != nil {
		t.Fatal(err)
	}
	for _, tls := range []string{"", "/etc/nats/tls"} {
		dir := t.TempDir()
		again := func(tls string) error {
			_, err := setup.NATS(setup.Config{Dir: dir, Nodes: nodes, Store: "/var/lib/nats", TLS: tls, Prefix: "linesman"})
			return err
		}
		if err := again(tls); err != nil {
			t.Fatal(err)
		}
		for name, change := range map[string]func(string) string{
			"a.conf":        func(s string) string { return s + "tls {\n  cert_file: \"own.pem\"\n}\n" },
			"b.conf":        func(s string) string { return strings.Replace(s, "cluster {", "cluster { TLS: {}", 1) },
			"c.conf":        func(s string) string { return "tls\n{\n  cert_file: \"own.pem\"\n}\n" + s },
			"linesman.conf": func(s string) string { return s + "  tls= {cert_file: \"own.pem\"}\n" },
		} {
			path := filepath.Join(dir, "servers", name)
			before, err := os.ReadFile(path)
			if err != nil {
				t.Fatal(err)
			}
			own := change(string(before))
			if err := os.WriteFile(path, []byte(own), 0o600); err != nil {
				t.Fatal(err)
			}
			for _, with := range []string{"", "/etc/nats/tls"} {
				if err := again(with); err == nil || !strings.Contains(err.Error(), path+" has a block tls, which would be lost") {
					t.Errorf("%s with %q after %q: %v", name, with, tls, err)
				}
			}
			if now, err := os.ReadFile(path); err != nil || string(now) != own {
				t.Errorf("%s was changed: %v\n%s", name, err, now)
			}
			if err := os.WriteFile(path, append(before, "# tls {} is not here\n"...), 0o600); err != nil {
				t.Fatal(err)
			}
		}
		if err := again(""); err != nil {
			t.Errorf("without them: %v", err)
		}
	}
}

func TestFilesAreForTheirOwnerOnly(t *testing.T) {
	t.Parallel()
	dir := filepath.Join(t.TempDir(), "new", "cluster")
	nodes, err := setup.ParseNodes("nats")
	if err != nil {
		t.Fatal(err)
	}
	if _, err := setup.NATS(setup.Config{Dir: dir, Nodes: nodes, Store: "/var/lib/nats", Prefix: "linesman"}); err != nil {
		t.Fatal(err)
	}
	err = filepath.WalkDir(dir, func(path string, entry os.DirEntry, err error) error {
		if err != nil {
			return err
		}
		info, err := entry.Info()
		if err == nil && info.Mode().Perm()&0o077 != 0 {
			t.Errorf("%s has the mode %v", path, info.Mode())
		}
		return err
	})
	if err != nil {
		t.Error(err)
	}
	for _, r := range setup.Roles {
		files, err := os.ReadDir(filepath.Join(dir, r.Name))
		if err != nil || len(files) != len(r.Users)+1 {
			t.Errorf("%s has %d files, %v", r.Name, len(files), err)
		}
	}
}

// TestPrintedCommandsAreWordsOfAShell has a shell read them.
func TestPrintedCommandsAreWordsOfAShell(t *testing.T) {
	t.Parallel()
	nodes, err := setup.ParseNodes("a")
	if err != nil {
		t.Fatal(err)
	}
	for _, name := range []string{"cluster", "two words", "it's", "$(touch x)", "-c"} {
		dir := filepath.Join(t.TempDir(), name)
		done, err := setup.NATS(setup.Config{Dir: dir, Nodes: nodes, Store: "/var/lib/nats", Prefix: "linesman"})
		if err != nil {
			t.Fatal(err)
		}
		for _, command := range done.Commands {
			last := "set -- " + command + `; for last; do :; done; [ -f "$last" ]`
			if out, err := exec.Command("sh", "-c", last).CombinedOutput(); err != nil {
				t.Errorf("%s: its last word is no file: %v\n%s", command, err, out)
			}
		}
	}
}

// TestPrintedPathsAreNoFlags has a directory in the current one whose name begins as a flag does.
func TestPrintedPathsAreNoFlags(t *testing.T) {
	t.Chdir(t.TempDir())
	nodes, err := setup.ParseNodes("a")
	if err != nil {
		t.Fatal(err)
	}
	done, err := setup.NATS(setup.Config{Dir: "-x", Nodes: nodes, Store: "/var/lib/nats", Prefix: "linesman"})
	if err != nil {
		t.Fatal(err)
	}
	for _, command := range done.Commands {
		words := strings.Fields(command)
		if last := words[len(words)-1]; !strings.HasPrefix(last, "./-x/") {
			t.Errorf("%s: %s is read as a flag", command, last)
		}
	}
}
