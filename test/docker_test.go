// Package test holds what is tested about the whole: the image here, the
// scripts, the real agents and the recordings in its folders.
package test

import (
	"bytes"
	"debug/elf"
	"encoding/json"
	"errors"
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"runtime"
	"slices"
	"strings"
	"testing"

	"github.com/linesman/linesman/test/fixture"
)

const imageTag = "linesman-test"

// With an engine the image is built and run as it will be.
func TestImageRuns(t *testing.T) {
	fixture.All(t, "builds an image")
	engine, build := containerEngine(t)
	command(t, "..", nil, engine, append(build, "--build-arg", "VERSION=v0.0.0-test", "-t", imageTag, ".")...)
	t.Cleanup(func() { _ = exec.Command(engine, "rmi", imageTag).Run() })

	if engine == "buildah" {
		name := strings.TrimSpace(command(t, "..", nil, engine, "from", imageTag))
		t.Cleanup(func() { _ = exec.Command(engine, "rm", name).Run() })
		version := command(t, "..", nil, engine, "run", name, "--", "/usr/local/bin/linesman", "version")
		if !strings.HasPrefix(version, "linesman v0.0.0-test ") {
			t.Errorf("got %q", version)
		}
		return
	}
	version := command(t, "..", nil, engine, "run", "--rm", "--network=none", imageTag, "version")
	if !strings.HasPrefix(version, "linesman v0.0.0-test ") {
		t.Errorf("got %q", version)
	}
	user := strings.TrimSpace(command(t, "..", nil, engine, "image", "inspect", "-f", "{{.Config.User}}", imageTag))
	if user != "65532:65532" {
		t.Errorf("the image runs as %q", user)
	}
}

// Without one, the same steps are done by hand: the build command that the
// Dockerfile holds, and the commands that the image will run.
func TestImageStepsWorkWithoutAnEngine(t *testing.T) {
	if runtime.GOOS != "linux" {
		t.Skip("the image is for Linux")
	}
	fixture.All(t, "builds the program of the image")
	d := readDockerfile(t)
	out := t.TempDir()

	// Each build step that needs no network, in its order, into out for /out.
	var built bool
	for _, step := range d.all("RUN") {
		if strings.Contains(step, "mod download") {
			continue
		}
		built = built || strings.Contains(step, "go build")
		step = strings.ReplaceAll(step, "/out", out)
		command(t, "..", append(os.Environ(), "VERSION=v0.0.0-test"), "sh", "-ec", step)
	}
	if !built {
		t.Fatalf("no RUN builds: %q", d.all("RUN"))
	}

	// Every file that the image takes from the build stage is there, and the
	// program is where the entry point looks for it.
	installed := map[string]string{}
	for _, step := range d.all("COPY") {
		words := slices.DeleteFunc(strings.Fields(step), func(w string) bool { return strings.HasPrefix(w, "--chown=") })
		if words[0] != "--from=build" || !strings.HasPrefix(words[1], "/out/") {
			continue
		}
		source := filepath.Join(out, strings.TrimPrefix(words[1], "/out"))
		if _, err := os.Stat(source); err != nil {
			t.Errorf("COPY %s: %v", step, err)
		}
		installed[words[2]] = source
	}
	entry := words(t, d.one(t, "ENTRYPOINT"))
	binary := installed[entry[0]]
	if binary == "" {
		t.Fatalf("the entry point %s is not among the files of the image: %v", entry[0], installed)
	}
	isStatic(t, binary)
	if version := command(t, "..", nil, binary, "version"); !strings.HasPrefix(version, "linesman v0.0.0-test ") {
		t.Errorf("got %q, want the version that was given to the build", version)
	}

	// The commands the image runs exist; their help says so without running
	// them.
	_, health, _ := strings.Cut(d.one(t, "HEALTHCHECK"), "CMD ")
	for _, argv := range [][]string{append(entry, words(t, d.one(t, "CMD"))...), words(t, health)} {
		if argv[0] != entry[0] {
			t.Errorf("%q does not run the entry point's program", argv)
		}
		help := command(t, "..", []string{"HOME=/data"}, binary, append(argv[1:], "--help")...)
		if !strings.HasPrefix(help, "Usage: linesman "+argv[1]) {
			t.Errorf("%q: got %q", argv, help)
		}
	}

	// The home is a volume of a user who is not root, and the data directory is in it: agents work beside it.
	if env, volume := d.one(t, "ENV"), d.one(t, "VOLUME"); !strings.Contains(env, "LINESMAN_DATA_DIR="+volume+"/") ||
		!strings.Contains(env, "HOME="+volume+" ") || installed[volume] == "" {
		t.Errorf("ENV %s and VOLUME %s do not name one directory of the image", env, volume)
	}
	if user := d.one(t, "USER"); !regexp.MustCompile(`^[1-9]\d*:[1-9]\d*$`).MatchString(user) {
		t.Errorf("USER %s: want numbers, which any base has, and not root", user)
	}
	if port := d.one(t, "EXPOSE"); port != "4222" {
		t.Errorf("EXPOSE %s, want 4222", port)
	}
}

// containerEngine finds an engine that works, and how it is told to build.
func containerEngine(t *testing.T) (name string, build []string) {
	t.Helper()
	var reasons []string
	for _, try := range []struct{ name, probe, build string }{
		{"docker", "info", "build"},
		{"podman", "info", "build"},
		{"buildah", "info", "build"},
	} {
		err := exec.Command(try.name, try.probe).Run()
		if err == nil {
			bases(t, try.name)
			return try.name, []string{try.build}
		}
		reasons = append(reasons, try.name+": "+err.Error())
	}
	t.Skipf("no container engine works here (%s); the steps of the image are done by hand",
		strings.Join(reasons, "; "))
	return "", nil
}

// bases skips the test when the images that the Dockerfile begins with cannot
// be had: that is the network's fault, not ours.
func bases(t *testing.T, engine string) {
	t.Helper()
	for _, arg := range readDockerfile(t).all("ARG") {
		name, image, _ := strings.Cut(arg, "=")
		if name != "BUILDER" && name != "RUNTIME" {
			continue
		}
		if err := exec.Command(engine, "pull", "-q", image).Run(); err != nil {
			t.Skipf("%s cannot get %s: %v", engine, image, err)
		}
	}
}

type instruction struct{ name, rest string }

type dockerfile []instruction

// readDockerfile reads the instructions, without comments, with continued
// lines joined. That is all of the syntax that ours uses.
func readDockerfile(t *testing.T) dockerfile {
	t.Helper()
	raw, err := os.ReadFile(filepath.Join("..", "Dockerfile"))
	if err != nil {
		t.Fatal(err)
	}
	var d dockerfile
	for line := range strings.SplitSeq(strings.ReplaceAll(string(raw), "\\\n", " "), "\n") {
		name, rest, ok := strings.Cut(strings.TrimSpace(line), " ")
		if ok && !strings.HasPrefix(name, "#") {
			d = append(d, instruction{strings.ToUpper(name), strings.TrimSpace(rest)})
		}
	}
	return d
}

func (d dockerfile) all(name string) []string {
	var found []string
	for _, i := range d {
		if i.name == name {
			found = append(found, i.rest)
		}
	}
	return found
}

func (d dockerfile) one(t *testing.T, name string) string {
	t.Helper()
	found := d.all(name)
	if len(found) != 1 {
		t.Fatalf("%d lines of %s in the Dockerfile, want one", len(found), name)
	}
	return found[0]
}

// words reads the exec form: a JSON array.
func words(t *testing.T, text string) []string {
	t.Helper()
	var list []string
	if err := json.Unmarshal([]byte(text), &list); err != nil || len(list) == 0 {
		t.Fatalf("%q is no exec form: %v", text, err)
	}
	return list
}

// isStatic fails unless the kernel alone can start the program.
func isStatic(t *testing.T, path string) {
	t.Helper()
	f, err := elf.Open(path)
	if err != nil {
		t.Fatal(err)
	}
	defer f.Close()
	for _, p := range f.Progs {
		if p.Type == elf.PT_INTERP {
			t.Errorf("%s needs a dynamic linker", filepath.Base(path))
		}
	}
	if libraries, err := f.ImportedLibraries(); len(libraries) > 0 || err != nil && !errors.Is(err, elf.ErrNoSymbols) {
		t.Errorf("%s needs %q, %v", filepath.Base(path), libraries, err)
	}
}

func command(t *testing.T, dir string, env []string, name string, args ...string) string {
	t.Helper()
	var stderr bytes.Buffer
	cmd := exec.CommandContext(t.Context(), name, args...)
	cmd.Dir, cmd.Env, cmd.Stderr = dir, env, &stderr
	out, err := cmd.Output()
	if err != nil {
		t.Fatalf("%s %q: %v\n%s", name, args, err, stderr.Bytes())
	}
	return string(out)
}
