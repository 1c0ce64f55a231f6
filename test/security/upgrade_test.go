package security

import (
	"fmt"
	"os/exec"
	"path/filepath"
	"regexp"
	"strings"
	"testing"

	"github.com/linesman/linesman/test/fixture"
)

const upgrade = "linesman down\ninstall"

// upgradable is a deployment with a linesman of its own, another one in new, and an agent that
// waits in the middle of its second run until it is released.
func upgradable(t *testing.T) (d *deployment, release func()) {
	t.Helper()
	d = deploy(t)
	recording, err := filepath.Abs("../corpus/codex/hello.jsonl")
	if err != nil {
		t.Fatal(err)
	}
	d.write("codex", `#!/bin/sh
case $1 in
--version) echo codex-cli 0.169.0; exit ;;
esac
head -n 2 '`+recording+`'
if [ -e '`+d.dir+`/again' ]; then cat '`+d.dir+`/again'; fi
tail -n +3 '`+recording+`'
`, 0o700)
	d.run("install " + program(t, "linesman") + " linesman && mkdir new")
	build := exec.Command("go", "build", "-o", filepath.Join(d.dir, "new"), "-ldflags", "-X main.version=v99.0.0",
		"../../cmd/linesman")
	if said, err := build.CombinedOutput(); err != nil {
		t.Fatalf("%v: %s", err, said)
	}
	return d, func() { d.run("echo >again") }
}

// interrupted upgrades in the middle of a run, and compares its events with those of one before.
// The flags are those of an operator, and of a subscriber.
func (d *deployment) interrupted(operator, subscriber string, release, upgrade func(), environ ...string) {
	t := d.t
	t.Helper()
	run := func(line string) string { return strings.TrimSpace(d.run("linesman "+line+operator, environ...)) }
	events := func(id string) string {
		return d.run("linesman events --json --run "+id+subscriber, environ...)
	}
	kinds := func(id string) string {
		return strings.Join(regexp.MustCompile(`"kind":"[A-Za-z_]+"`).FindAllString(events(id), -1), " ")
	}
	first := run(`submit "Go."`)
	run("wait " + first)
	before := events(first)

	d.run("mkfifo again")
	second := run(`submit "Go on."`)
	soon(t, "the agent to work", func() bool { return strings.Contains(run("status "+second), "working") })
	upgrade()
	if out := run("version"); !strings.Contains(out, "v99.0.0") {
		t.Fatal(out)
	}
	if after := events(first); after != before {
		t.Errorf("after the upgrade:\n%s\nbefore:\n%s", after, before)
	}
	release()
	run("wait " + second)
	if a, b := kinds(second), kinds(first); a != b || b == "" {
		t.Errorf("with an upgrade: %s\nwithout: %s", a, b)
	}
	if out := run("rebuild"); !strings.Contains(out, " 0 differences") {
		t.Error(out)
	}
}

// An agent that works while `up` is upgraded loses nothing, and the old history is there.
func TestUpgradeOfAnUp(t *testing.T) {
	fixture.Long(t, "builds the version before")
	t.Parallel()
	d, release := upgradable(t)
	data := "LINESMAN_DATA_DIR=" + filepath.Join(d.dir, "data")
	replace := steps(t, upgrade)[upgrade]
	up := func() { d.start("ready nats=", replace[2], data) }
	up()
	d.interrupted("", " --no-daemon", release, func() {
		d.run(replace[0], data)
		d.run(replace[1], data)
		up()
	}, data)
}

// Nor does one on a cluster, whose roles are upgraded one after the other.
func TestUpgradeOfACluster(t *testing.T) {
	fixture.Long(t, "starts three servers of two versions")
	t.Parallel()
	d, release := upgradable(t)
	const config = " --config cluster/%s/linesman.toml"
	replace := steps(t, upgrade)[upgrade][1]
	setup := "linesman setup nats cluster --store store --nodes " + nodesOnLoopback(t)
	d.run(setup)
	servers := map[string]func(){}
	serve := func(name string) { servers[name] = d.server(name, "-c", "cluster/servers/"+name+".conf") }
	for _, name := range []string{"a", "b", "c"} {
		serve(name)
	}
	roles := []string{"normalizer", "responder", "worker"}
	stop := map[string]func(){}
	role := func(name string) {
		ready := map[string]string{"normalizer": "normalizer reading", "responder": "ready http=", "worker": "worker ready"}
		stop[name] = d.start(ready[name], "linesman "+name+fmt.Sprintf(config, name),
			"LINESMAN_DATA_DIR="+filepath.Join(d.dir, name))
	}
	for _, name := range roles {
		role(name)
	}
	d.interrupted(fmt.Sprintf(config, "operator"), fmt.Sprintf(config, "subscriber"), release, func() {
		d.run(replace)
		d.run(setup)
		for _, name := range []string{"a", "b", "c"} {
			servers[name]()
			serve(name)
		}
		for _, name := range roles {
			stop[name]()
			role(name)
		}
	})
}
