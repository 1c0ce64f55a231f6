package bridge

import (
	"encoding/json"
	"slices"
	"strings"
	"testing"
	"unicode/utf8"

	"go.uber.org/zap"
	"go.uber.org/zap/zaptest/observer"
)

// FuzzResponse reads a response of another program. The run is notified with
// its content, or with an error if it violates the contract. Each error is one
// bounded line, and no content is logged.
func FuzzResponse(f *testing.F) {
	const good = `{"request_id":"x","version":"1.0","status":"success","response":"S3NT1NEL","error_message":null,` +
		`"error_type":null,` +
		`"created_at":"2025-11-24T14:22:45.123456+00:00","duration_seconds":12.7,"metadata":{}}`
	for _, s := range []string{
		good, strings.Replace(good, "success", "timeout", 1),
		strings.Replace(good, `"S3NT1NEL"`, `"\ud800"`, 1),
		strings.Replace(good, `"request_id"`, `"Request_ID"`, 1),
		strings.Replace(good, `{}`, `{},"S3NT1NEL\n":1,"status":"error","Status":7`, 1),
		strings.Replace(good, "12.7", "-1e999", 1),
		`{}`, `[]`, `null`, `{"request_id":7}`, `{"S3NT1NEL`, "\xff\x00", "\xef\xbb\xbf" + good, good + good, "",
	} {
		f.Add([]byte(s))
	}
	core, logs := observer.New(zap.DebugLevel)
	dir := newDirWatcher(newBridge(Config{Log: zap.New(core), State: f.TempDir()}), f.TempDir())
	if err := dir.open(); err != nil {
		f.Fatal(err)
	}
	defer dir.close()
	f.Fuzz(func(t *testing.T, b []byte) {
		if err := dir.dir.write(response, b); err != nil {
			t.Fatal(err)
		}
		mistakes := Check(b)
		for _, m := range mistakes {
			if len(m) > 512 || !utf8.ValidString(m) || strings.ContainsAny(m, "\n\r\x00") {
				t.Errorf("a mistake is reported as %q", m)
			}
		}
		o := outcomeOf(b)
		if !slices.Contains([]string{statusSuccess, statusError, statusTimeout}, o.Status) ||
			o.Status != statusSuccess && o.Text != "" && mistakes != nil {
			t.Errorf("%q is the outcome %+v", b, o)
		}
		var r struct {
			ID       string  `json:"request_id"`
			Response *string `json:"response"`
		}
		switch id := dir.responseID(request); {
		case mistakes == nil &&
			(json.Unmarshal(b, &r) != nil || id != r.ID || o.Status == statusSuccess && o.Text != *r.Response):
			t.Errorf("%q is the outcome %+v of %q", b, o, id)
		case mistakes != nil && (o.Status != statusError || strings.Contains(o.Message, "S3NT1NEL")):
			t.Errorf("%q is no valid response, but the outcome is %+v", b, o)
		case !utf8.ValidString(id):
			t.Errorf("%q has the id %q", b, id)
		}
		for _, e := range logs.TakeAll() {
			t.Errorf("logged: %s %v", e.Message, e.ContextMap())
		}
	})
}
