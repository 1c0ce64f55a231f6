package bridge

import (
	"fmt"
	"os"
	"path/filepath"
	"slices"
	"testing"
	"time"
)

// Ignored files, however many, hide no requests. The number of those that are
// logged and remembered is bounded.
func TestForeignFilesHideNoRequest(t *testing.T) {
	t.Parallel()
	l := newFixture(t)
	const count, each = 8, maxNames // spread among the requests, in any order of the directory
	for i := range count {
		for k := range each {
			if err := os.Symlink("nowhere", l.path(fmt.Sprintf(".agent-request-%d-%d.json", i, k))); err != nil {
				t.Fatal(err)
			}
		}
		l.request(fmt.Sprintf(".agent-request-%d.json", i), fmt.Sprintf("id-%d", i), "say x")
	}
	l.start(l.config())
	for i := range count {
		if r := l.response(fmt.Sprintf(".agent-response-%d.json", i)); r["request_id"] != fmt.Sprintf("id-%d", i) {
			t.Errorf("got %v", r)
		}
	}
	l.until("the requests are removed", func() bool { return len(l.names(l.dir)) == count*(each+1) })
	if n := l.logs.FilterMessage("file ignored").Len(); n == 0 || n > maxNames {
		t.Errorf("%d files were logged as ignored, want 1 to %d", n, maxNames)
	}
}

// Files of other programs can have names like the bridge's own files. They
// stay, and recovery still works.
func TestForeignLeftoversStay(t *testing.T) {
	t.Parallel()
	l := newFixture(t)
	others := []string{".agent-request-a.json.taken", ".agent-request-b.json.taken", unpublishedName(entry{ID: "id-2"})}
	for _, name := range others[:2] {
		if err := os.MkdirAll(filepath.Join(l.path(name), "kept"), 0o700); err != nil {
			t.Fatal(err)
		}
	}
	if err := os.Symlink("nowhere", l.path(others[2])); err != nil {
		t.Fatal(err)
	}
	l.write(unpublishedName(entry{ID: "id-1"}), "{}")
	l.write(".agent-request-z.json.taken", `{"request_id":"z","prompt":"say z"}`)
	l.start(l.config())
	if r := l.response(".agent-response-z.json"); r["request_id"] != "z" {
		t.Errorf("got %v", r)
	}
	want := append(others, ".agent-response-z.json")
	slices.Sort(want)
	l.until("only the foreign files are left", func() bool { return slices.Equal(l.names(l.dir), want) })
}

// Foreign files do not count as files that were moved aside, and are not
// removed.
func TestForeignFilesAreNotOverwritten(t *testing.T) {
	t.Parallel()
	l := newFixture(t)
	p, err := openLockedDir(l.dir)
	if err != nil {
		t.Fatal(err)
	}
	defer p.close()
	for i := range 2 * maxQuarantined {
		name := fmt.Sprintf(".agent-request-%d.json.bad-19700101T000000%03dZ", i, i)
		if err := os.MkdirAll(filepath.Join(l.path(name), "kept"), 0o700); err != nil {
			t.Fatal(err)
		}
	}
	l.write(request, "{")
	v, err := p.stat(request)
	if err != nil {
		t.Fatal(err)
	}
	to, err := p.quarantine(request, "bad", "why", v, time.UnixMilli(1000))
	if err != nil || !l.has(to) || !l.has(to+".txt") {
		t.Errorf("moved aside to %q, %v", to, err)
	}
}
