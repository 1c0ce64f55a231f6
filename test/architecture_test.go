package test

import (
	"bytes"
	"encoding/json"
	"errors"
	"go/ast"
	"go/parser"
	"go/token"
	"io"
	"os/exec"
	"regexp"
	"slices"
	"strings"
	"testing"
)

const module = "github.com/linesman/linesman"

// layers says what each package of ours may import of ours. Those below test
// and examples may import what they like; every other package is listed here.
var layers = map[string][]string{
	"bounds":              {},
	"runs":                {"bounds"},
	"normalizer/scan":     {},
	"normalizer":          {"bounds", "runs", "normalizer/scan"},
	"agent":               {"runs", "normalizer"},
	"normalizer/wire":     {"bounds", "runs", "normalizer", "normalizer/scan"},
	"agent/*":             {"agent", "bounds", "runs", "normalizer", "normalizer/scan", "normalizer/wire"},
	"agents":              {"agent", "agent/*"},
	"config":              {"agent", "agents"},
	"filelock":            {},
	"memory":              {},
	"atomicfile":          {},
	"normalizer/cloud":    {"bounds", "runs", "normalizer", "normalizer/scan"},
	"normalizer/external": {"runs", "normalizer", "normalizer/scan"},
	"worker/launch":       {"runs"},
	"programs":            {"agent", "atomicfile", "runs", "worker/launch"},
	"worker/snapshot":     {"atomicfile", "bounds", "runs"},
	"worker/sessionlog":   {"agent", "normalizer", "runs"},
	"worker": {"agent", "atomicfile", "bounds", "filelock", "metrics", "runs", "worker/launch",
		"worker/sessionlog", "worker/snapshot"},
	"bus/bucket":   {"bus/reader"},
	"bus/reader":   {},
	"bus":          {"bounds", "runs", "normalizer", "bus/bucket", "bus/reader"},
	"bus/bustest":  {"bus", "normalizer", "runs", "test/fixture"},
	"bus/embedded": {"atomicfile", "bus", "bus/bucket", "bus/reader"},
	"bus/pipeline": {"bounds", "runs", "metrics", "normalizer", "bus", "bus/bucket", "bus/reader"},
	"metrics":      {"normalizer", "runs"},
	"bridge":       {"atomicfile", "filelock", "runs"},
	"api":          {"runs"},
	"responder": {"agent", "agents", "api", "bounds", "runs", "responder/codexcloud", "responder/idempotency",
		"responder/webhook", "responder/runtable"},
	"responder/runtable":    {"api", "runs"},
	"responder/idempotency": {"api", "bounds"},
	"responder/codexcloud":  {"bounds", "runs"},
	"responder/webhook":     {"bounds", "runs", "responder/idempotency"},
	"responder/request": {
		"api", "bounds", "runs", "responder", "responder/codexcloud", "responder/idempotency", "responder/webhook",
		"responder/runtable",
	},
	"responder/v36": {"api", "bounds", "runs", "responder", "responder/runtable"},
	"responder/adcp": {"api", "bounds", "runs", "responder", "responder/webhook", "responder/request",
		"responder/v36"},
	"responder/tools": {"api", "runs", "responder", "responder/adcp", "responder/codexcloud", "responder/request",
		"responder/runtable", "responder/v36"},
	"responder/mcp":     {"api", "responder", "responder/v36"},
	"responder/natsapi": {"api", "bounds", "runs", "responder", "responder/adcp", "responder/v36"},
	"responder/rest":    {"api", "bounds", "runs", "responder", "responder/adcp", "responder/request", "responder/v36"},
	"responder/a2a": {"api", "runs", "responder", "responder/adcp", "responder/webhook", "responder/request",
		"responder/v36"},
	"client":  {"api", "bus", "runs"},
	"console": {"agent", "api", "bounds", "programs", "runs"},
	"top":     {"api", "client", "console", "runs"},
	"local": {"agents", "atomicfile", "bus", "bus/embedded", "client", "config", "filelock", "runs", "worker",
		"worker/launch"},
	"doctor": {"agent", "api", "bus", "bus/embedded", "client", "config", "console", "local", "programs",
		"runs", "worker"},
	"command":              {"agents", "api", "client", "console", "local", "runs"},
	"responder/httpserver": {"atomicfile", "filelock"},
	"web":                  {},
	"setup":                {"agent", "atomicfile", "bus", "bus/embedded"},
	"watch":                {"api", "atomicfile", "client", "config", "console", "filelock", "responder/webhook", "runs"},
	"bridge/runner":        {"api", "bridge", "responder", "runs"},
	"telemetry/spans":      {"runs"},
	"telemetry":            {"api", "runs", "telemetry/spans"},
	"daemon": {
		"agent", "agent/*", "agents", "api", "atomicfile", "bridge", "bridge/runner", "bus", "bus/embedded", "bus/pipeline",
		"client", "config", "local", "memory", "metrics", "normalizer", "normalizer/cloud", "programs",
		"normalizer/external", "responder", "responder/a2a", "responder/adcp", "responder/codexcloud",
		"responder/idempotency",
		"responder/mcp", "responder/natsapi", "responder/webhook", "responder/rest", "responder/runtable", "responder/tools",
		"responder/v36", "responder/httpserver", "runs", "telemetry", "web", "worker", "worker/launch",
	},
	"daemon/daemontest": {"config", "daemon"},
	"cmd/linesman": {
		"agents", "api", "bridge", "client", "command", "config", "console", "daemon", "doctor", "local", "normalizer",
		"programs", "responder/httpserver",
		"runs", "setup", "top", "watch", "worker",
	},
}

// pure packages are functions of their input. What would let them look at the
// world is forbidden to them, and so is everything from outside this module.
var pure = []string{"bounds", "runs", "normalizer", "normalizer/scan", "normalizer/wire", "agent", "agents",
	"normalizer/cloud",
	"normalizer/external", "telemetry/spans"}

var impure = []string{
	"context", "crypto/rand", "embed", "io/fs", "io/ioutil", "log", "log/slog", "math/rand", "math/rand/v2", "net",
	"net/http", "os",
	"os/exec", "os/signal", "os/user", "path/filepath", "plugin", "runtime", "sync", "sync/atomic", "syscall", "time",
}

// useNATS are the packages that may speak to NATS.
var useNATS = []string{
	"bus", "bus/bucket", "bus/bustest", "bus/embedded", "bus/pipeline", "bus/reader", "local", "responder/natsapi",
}

type listed struct {
	ImportPath string
	Imports    []string
}

// list is what `go list` knows of the packages of this module, by their path
// within it: the imports of files that are no tests.
func list(t *testing.T) map[string]listed {
	t.Helper()
	var stderr bytes.Buffer
	cmd := exec.CommandContext(t.Context(), "go", "list", "-json=ImportPath,Imports", "./...")
	cmd.Dir, cmd.Stderr = "..", &stderr
	out, err := cmd.Output()
	if err != nil {
		t.Fatalf("go list: %v\n%s", err, stderr.Bytes())
	}
	all := map[string]listed{}
	for d := json.NewDecoder(bytes.NewReader(out)); ; {
		var p listed
		if err := d.Decode(&p); errors.Is(err, io.EOF) {
			return all
		} else if err != nil {
			t.Fatal(err)
		}
		all[strings.TrimPrefix(p.ImportPath, module+"/")] = p
	}
}

func exempt(name string) bool {
	first, _, _ := strings.Cut(name, "/")
	return first == "test" || first == "examples"
}

func TestPackagesImportDownwardsOnly(t *testing.T) {
	all := list(t)
	for name, p := range all {
		if exempt(name) {
			continue
		}
		layer := name
		if below, found := strings.CutPrefix(name, "agent/"); found && !strings.Contains(below, "/") {
			layer = "agent/*" // an agent needs no line of its own here
		}
		may, known := layers[layer]
		if !known {
			t.Errorf("%s is in no layer: say in this test what it may import", name)
		}
		for _, imported := range p.Imports {
			if ours, ok := strings.CutPrefix(imported, module+"/"); ok && known && !slices.Contains(may, ours) &&
				!(strings.HasPrefix(ours, "agent/") && slices.Contains(may, "agent/*")) {
				t.Errorf("%s imports %s, and may import %v", name, ours, may)
			}
		}
	}
	for name := range layers {
		if _, there := all[name]; !there && name != "agent/*" {
			t.Errorf("%s is in a layer and not in the tree", name)
		}
	}
}

func TestCoreSeesNoClockNoFileAndNoNetwork(t *testing.T) {
	all := list(t)
	for name, p := range all {
		if !slices.Contains(pure, name) && !strings.HasPrefix(name, "agent/") {
			continue
		}
		for _, imported := range p.Imports {
			host, _, _ := strings.Cut(imported, "/")
			external := strings.Contains(host, ".") && !strings.HasPrefix(imported, module+"/")
			if slices.Contains(impure, imported) || external {
				t.Errorf("%s imports %s", name, imported)
			}
		}
	}
}

// Packages that `make test` tests without the race detector, which takes five times as long with their tables and
// random inputs, cannot have a race: no goroutine, no channel, and by the test above no lock.
func TestNothingRunsConcurrentlyInTheCore(t *testing.T) {
	names := regexp.MustCompile(`(?m)^var core = \[\]string\{"(.*)"\}$`).FindStringSubmatch(text(t, "test/run/main.go"))
	if names == nil {
		t.Fatal("test/run has no core")
	}
	args := []string{"list", "-f", "{{.ImportPath}}{{range .GoFiles}} {{$.Dir}}/{{.}}{{end}}"}
	for name := range strings.SplitSeq(names[1], `", "`) {
		args = append(args, "./"+name+"/...")
	}
	cmd := exec.CommandContext(t.Context(), "go", args...)
	cmd.Dir = ".."
	out, err := cmd.Output()
	if err != nil {
		t.Fatal(err)
	}
	for line := range strings.Lines(string(out)) {
		fields := strings.Fields(line)
		name := strings.TrimPrefix(fields[0], module+"/")
		if !slices.Contains(pure, name) && !strings.HasPrefix(name, "agent/") {
			t.Errorf("%s is not pure, and tested without the race detector", name)
		}
		for _, file := range fields[1:] {
			parsed, err := parser.ParseFile(token.NewFileSet(), file, nil, 0)
			if err != nil {
				t.Fatal(err)
			}
			ast.Inspect(parsed, func(n ast.Node) bool {
				switch n.(type) {
				case *ast.GoStmt, *ast.ChanType, *ast.SelectStmt:
					t.Errorf("%s: a %T", file, n)
				}
				return true
			})
		}
	}
}

func TestOnlyTheBusSpeaksNATS(t *testing.T) {
	all := list(t)
	for _, imported := range all["cmd/linesman"].Imports {
		ours, _ := strings.CutPrefix(imported, module+"/")
		if first, _, _ := strings.Cut(ours, "/"); first == "bus" {
			t.Errorf("cmd/linesman imports %s: commands use daemon, local, doctor and client", imported)
		}
	}
	for name, p := range all {
		if exempt(name) || slices.Contains(useNATS, name) {
			continue
		}
		for _, imported := range p.Imports {
			if strings.HasPrefix(imported, "github.com/nats-io/") || strings.HasPrefix(imported, "github.com/synadia-io/") {
				t.Errorf("%s imports %s", name, imported)
			}
		}
	}
}
