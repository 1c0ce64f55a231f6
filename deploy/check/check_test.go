// Package check has what is deployed read by the code of those that will read it.
package check

import (
	"bytes"
	"context"
	"errors"
	"io"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	"github.com/compose-spec/compose-go/v2/cli"
	appsv1 "k8s.io/api/apps/v1"
	corev1 "k8s.io/api/core/v1"
	policyv1 "k8s.io/api/policy/v1"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/runtime/serializer/json"
	utilyaml "k8s.io/apimachinery/pkg/util/yaml"
)

// TestManifestsAreStrictlyValid decodes each object into its type, in which a field of another name
// or kind is an error, and looks for what every container must have.
func TestManifestsAreStrictlyValid(t *testing.T) {
	scheme := runtime.NewScheme()
	if err := errors.Join(corev1.AddToScheme(scheme), appsv1.AddToScheme(scheme), policyv1.AddToScheme(scheme)); err != nil {
		t.Fatal(err)
	}
	decoder := json.NewSerializerWithOptions(json.DefaultMetaFactory, scheme, scheme, json.SerializerOptions{Yaml: true, Strict: true})
	text, err := os.ReadFile("../kubernetes/linesman.yaml")
	if err != nil {
		t.Fatal(err)
	}
	pods := 0
	for documents := utilyaml.NewDocumentDecoder(io.NopCloser(bytes.NewReader(text))); ; {
		buffer := make([]byte, len(text))
		n, err := documents.Read(buffer)
		if errors.Is(err, io.EOF) {
			break
		} else if err != nil {
			t.Fatal(err)
		}
		object, _, err := decoder.Decode(buffer[:n], nil, nil)
		if err != nil {
			t.Errorf("%v\n%s", err, buffer[:n])
			continue
		}
		switch o := object.(type) {
		case *appsv1.Deployment:
			pods++
			hardened(t, o.Name, o.Spec.Template.Spec)
		case *appsv1.StatefulSet:
			pods++
			hardened(t, o.Name, o.Spec.Template.Spec)
			c := o.Spec.Template.Spec.Containers[0]
			if c.Resources.Limits.Memory().Value() < 1<<30 || !slices.ContainsFunc(c.Env, func(v corev1.EnvVar) bool { return v.Name == "LINESMAN_MEMORY" }) {
				t.Errorf("%s: its agents have the memory of the pod, too", o.Name)
			}
		}
	}
	if pods != 3 {
		t.Errorf("%d kinds of pods", pods)
	}
}

func hardened(t *testing.T, name string, s corev1.PodSpec) {
	t.Helper()
	if s.SecurityContext == nil || !*s.SecurityContext.RunAsNonRoot || *s.AutomountServiceAccountToken {
		t.Errorf("%s may be root, or has a token", name)
	}
	if s.EnableServiceLinks == nil || *s.EnableServiceLinks {
		t.Errorf("%s gets variables of services, which may look like settings", name)
	}
	for _, c := range s.Containers {
		if x := c.SecurityContext; !*x.ReadOnlyRootFilesystem || *x.AllowPrivilegeEscalation || len(x.Capabilities.Drop) != 1 {
			t.Errorf("%s is not hardened", name)
		}
		if c.ReadinessProbe == nil || c.LivenessProbe == nil || c.Resources.Limits.Memory().IsZero() {
			t.Errorf("%s has no probes or limits", name)
		}
	}
}

func TestComposeFileIsValid(t *testing.T) {
	options, err := cli.NewProjectOptions([]string{"../compose/compose.yaml"}, cli.WithName("linesman"))
	if err != nil {
		t.Fatal(err)
	}
	project, err := options.LoadProject(context.Background())
	if err != nil {
		t.Fatal(err)
	}
	for name, s := range project.Services {
		if !strings.HasPrefix(name, "nats-") && !s.ReadOnly {
			t.Errorf("%s can write to its root", name)
		}
		for _, p := range s.Ports {
			if p.HostIP != "127.0.0.1" {
				t.Errorf("%s listens on %q", name, p.HostIP)
			}
		}
		for _, v := range s.Volumes {
			if v.Type != "bind" {
				continue
			}
			if _, err := os.Stat(v.Source); err != nil {
				t.Errorf("%s: %v", name, err)
			}
		}
	}
}

// TestUnitsAreVerified has systemd check the units, with a program that exists.
func TestUnitsAreVerified(t *testing.T) {
	if _, err := exec.LookPath("systemd-analyze"); err != nil {
		t.Skip("systemd-analyze is not installed")
	}
	units, err := filepath.Glob("../systemd/*.service")
	if err != nil || len(units) != 4 {
		t.Fatalf("%d units, %v", len(units), err)
	}
	for _, path := range units {
		text, err := os.ReadFile(path)
		if err != nil {
			t.Fatal(err)
		}
		if bytes.Contains(text, []byte("\nRestart=")) && !bytes.Contains(text, []byte("\nStartLimitIntervalSec=0\n")) {
			t.Errorf("%s: systemd gives up after some restarts, as on a full disk", path)
		}
		if bytes.Contains(text, []byte("\nKillMode=process\n")) {
			runsAgents(t, filepath.Base(path), string(text))
		}
		unit := filepath.Join(t.TempDir(), filepath.Base(path))
		text = bytes.ReplaceAll(text, []byte("/usr/bin/linesman"), []byte("/bin/true"))
		if err := os.WriteFile(unit, text, 0o644); err != nil {
			t.Fatal(err)
		}
		if out, err := exec.Command("systemd-analyze", "verify", unit).CombinedOutput(); err != nil || len(out) > 0 {
			t.Errorf("%s: %v\n%s", path, err, out)
		}
	}
}

// TestReloadedSettingsAreThoseOfTheOperator looks for units that would read a copy again: systemd makes that of a
// credential (%d) when the unit starts, and never later.
func TestReloadedSettingsAreThoseOfTheOperator(t *testing.T) {
	units, err := filepath.Glob("../systemd/*.service")
	if err != nil || len(units) != 4 {
		t.Fatalf("%d units, %v", len(units), err)
	}
	for _, path := range units {
		text, err := os.ReadFile(path)
		if err != nil {
			t.Fatal(err)
		}
		copied := bytes.Contains(text, []byte("LINESMAN_CONFIG=%d/"))
		reloads := bytes.Contains(text, []byte("\nExecReload="))
		if copied == reloads {
			t.Errorf("%s: settings in a copy: %t, can be reloaded: %t", path, copied, reloads)
		}
	}
}

// runsAgents looks for what a unit needs whose processes are agents, too.
func runsAgents(t *testing.T, unit, text string) {
	t.Helper()
	if !strings.Contains(text, "\nOOMPolicy=continue\n") {
		t.Errorf("%s: an agent without memory stops linesman", unit)
	}
	for _, set := range []string{"ProtectKernelTunables", "ProtectKernelLogs", "ProtectHostname", "ProtectProc", "ProcSubset", "RestrictNamespaces"} {
		if strings.Contains(text, "\n"+set+"=") {
			t.Errorf("%s: with %s agents' sandboxes cannot mount /proc", unit, set)
		}
	}
	if strings.Contains(text, "LINESMAN_DATA_DIR=%S/linesman\n") {
		t.Errorf("%s: the data directory is the home, in which agents work", unit)
	}
}

// TestManualPagesAreMade makes them as a release does, and has man read each of them.
func TestManualPagesAreMade(t *testing.T) {
	dir := t.TempDir()
	make := exec.Command("go", "run", ".", dir, "v0")
	make.Dir = "../man"
	if out, err := make.CombinedOutput(); err != nil {
		t.Fatalf("%v\n%s", err, out)
	}
	pages, err := filepath.Glob(filepath.Join(dir, "linesman*.[15]"))
	if err != nil || len(pages) < 30 {
		t.Fatalf("%d pages, %v", len(pages), err)
	}
	if _, err := exec.LookPath("man"); err != nil {
		t.Skip("man is not installed")
	}
	for _, path := range pages {
		out, err := exec.Command("man", "--warnings=all", "-l", path).CombinedOutput()
		if err != nil || !strings.Contains(string(out), "NAME") || strings.Contains(string(out), "warning:") {
			t.Errorf("%s: %v\n%s", filepath.Base(path), err, out)
		}
	}
}
