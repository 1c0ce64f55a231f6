package runs_test

import (
	"regexp"
	"strings"
	"testing"

	"pgregory.net/rapid"

	"github.com/linesman/linesman/bounds"
	"github.com/linesman/linesman/runs"
)

func TestCloudIDHasTheFormatOfALocalID(t *testing.T) {
	local, cloud := runs.NewID(1_700_000_000_000, 42), runs.NewCloudID(1_700_000_000_000, 42)
	if want := strings.Replace(local, "T-local-", "T-cloud-", 1); cloud != want {
		t.Errorf("got %q, want %q", cloud, want)
	}
	if err := runs.CheckID(cloud); err != nil {
		t.Error(err)
	}
}

func TestCheckCloudTask(t *testing.T) {
	for id, ok := range map[string]bool{
		"task_e_68c0b3b2f0d48321a4a0f8a7c1b2c3d4": true, "a": true, "9-_": true, strings.Repeat("x", 128): true,
		"": false, "-x": false, "_x": false, "a b": false, "a/b": false, "a.b": false, "é": false, "a\n": false,
		strings.Repeat("x", 129): false,
	} {
		if err := runs.CheckCloudTask(id); (err == nil) != ok {
			t.Errorf("%q: %v, want ok: %v", id, err, ok)
		}
	}
}

func TestMergedCloudKeepsFirstIDAndLastStatus(t *testing.T) {
	var c *runs.Cloud
	if c.Merge(nil) != nil {
		t.Error("nil merged with nil is not nil")
	}
	for _, update := range []runs.Cloud{
		{ID: "task_1", URL: "https://chatgpt.com/codex/tasks/task_1", Environment: "env", Attempts: 2},
		{Status: runs.CloudPending, Environment: "the label"},
		{Status: "exploded"},
		{ID: "task_2", URL: "https://elsewhere/", Status: runs.CloudApplied, FilesChanged: 2, Added: 12, Removed: 3},
		{Status: runs.CloudReady, FilesChanged: -1},
	} {
		before := c
		was := runs.Cloud{}
		if before != nil {
			was = *before
		}
		c = c.Merge(&update)
		if before != nil && *before != was {
			t.Fatalf("%+v changed to %+v, which a record may share", was, *before)
		}
	}
	want := runs.Cloud{
		ID: "task_1", URL: "https://chatgpt.com/codex/tasks/task_1", Environment: "env", Attempts: 2,
		Status: runs.CloudReady, Applied: true, FilesChanged: 2, Added: 12, Removed: 3,
	}
	if *c != want {
		t.Errorf("got %+v, want %+v", *c, want)
	}
}

// Any input results in printable text within the limits.
func TestCloudIsBounded(t *testing.T) {
	word := regexp.MustCompile(`^[A-Za-z0-9][A-Za-z0-9_-]{0,127}$`)
	rapid.Check(t, func(t *rapid.T) {
		text := rapid.OneOf(rapid.String(), rapid.StringN(0, 2000, -1),
			rapid.Just("https://x/"+strings.Repeat("\u0001", 100)), rapid.Just("task_e_1"))
		var c *runs.Cloud
		for range rapid.IntRange(1, 4).Draw(t, "lines") {
			c = c.Merge(&runs.Cloud{
				ID:          text.Draw(t, "id"),
				URL:         rapid.SampledFrom([]string{"", "https://"}).Draw(t, "scheme") + text.Draw(t, "url"),
				Environment: text.Draw(t, "environment"), Status: text.Draw(t, "status"),
				Attempts: rapid.Int().Draw(t, "attempts"),
			})
		}
		if c.ID != "" && !word.MatchString(c.ID) {
			t.Errorf("id %q", c.ID)
		}
		if c.URL != "" && !strings.HasPrefix(c.URL, "https://") {
			t.Errorf("url %q", c.URL)
		}
		if c.Status != "" && !runs.KnownCloudStatus(c.Status) {
			t.Errorf("status %q", c.Status)
		}
		for _, s := range []string{c.URL, c.Environment} {
			if bounds.StringSize(s) > runs.MaxCloudText || strings.ContainsAny(s, "\x00\x1b\n") {
				t.Errorf("%d bytes, or not printable: %q", len(s), s)
			}
		}
		if c.Attempts < 0 {
			t.Errorf("%d attempts", c.Attempts)
		}
	})
}
