package cloud_test

import (
	"testing"

	"github.com/linesman/linesman/normalizer/cloud"
	"github.com/linesman/linesman/test/fixture/backendtest"
)

func TestDetailsOfCloudTasks(t *testing.T) {
	backendtest.MapDetails(t, cloud.Backend{}, []backendtest.DetailCase{
		{"a title", []string{`{"type":"cloud.status","status":"ready","title":"Fix it"}`},
			[]string{`1.1 status {"text":{"head":"Fix it"}}`}},
		{"a diff of several files", []string{
			`{"type":"cloud.diff","files":[{"path":"b.go","kind":"add"},{"path":"a.go","kind":"update"},` +
				`{"path":"c","kind":"delete"}],` +
				`"diff":"diff --git a/a.go b/a.go\n--- a/a.go\n+++ b/a.go\n@@ -1 +1 @@\n-x\n+y\n` +
				`diff --git a/b.go b/b.go\n--- /dev/null\n+++ b/b.go\n@@ -0,0 +1 @@\n+z\n"}`,
		}, []string{`1.1 status {"files":[` +
			`{"path":"b.go","kind":"added","added":1,"removed":0,` +
			`"diff":{"head":"diff --git a/b.go b/b.go\n--- /dev/null\n+++ b/b.go\n@@ -0,0 +1 @@\n+z\n"}},` +
			`{"path":"a.go","kind":"modified","added":1,"removed":1,` +
			`"diff":{"head":"diff --git a/a.go b/a.go\n--- a/a.go\n+++ b/a.go\n@@ -1 +1 @@\n-x\n+y\n"}},` +
			`{"path":"c","kind":"deleted"}]}`}},
	})
}
