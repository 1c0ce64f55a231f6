package a2a_test

import (
	"bufio"
	"bytes"
	"context"
	"encoding/json"
	"io"
	"net/http"
	"strings"
	"testing"
	"time"

	sdk "github.com/a2aproject/a2a-go/v2/a2a"
	"github.com/tidwall/gjson"

	"github.com/linesman/linesman/runs"
)

// A refused stream is an ordinary response, for clients that accept one.
func TestARefusedStreamIsAnErrorAndNoStream(t *testing.T) {
	t.Parallel()
	d := newLab(t).endpoint(nil)
	d.play("ended", "shell-ok", "", 0)
	open := func(path, body string, header ...string) (int, string, gjson.Result) {
		r, err := http.NewRequestWithContext(t.Context(), "POST", d.url+path, strings.NewReader(body))
		if err != nil {
			t.Fatal(err)
		}
		r.Close = true
		r.Header.Set("Authorization", "Bearer "+token)
		for i := 0; i < len(header); i += 2 {
			r.Header.Set(header[i], header[i+1])
		}
		answer, err := http.DefaultClient.Do(r)
		if err != nil {
			t.Fatal(err)
		}
		defer answer.Body.Close()
		got, err := io.ReadAll(answer.Body)
		if err != nil {
			t.Fatal(err)
		}
		media := answer.Header.Get("Content-Type")
		if media == "text/event-stream" {
			_, got, _ = bytes.Cut(got, []byte("data: "))
		} else if answer.Header.Get("Cache-Control") != "no-store" {
			t.Errorf("%s: %v", body, answer.Header)
		}
		return answer.StatusCode, media, gjson.ParseBytes(got)
	}
	const every, both, stream = "*/*", "application/json, text/event-stream", "text/event-stream"
	for _, c := range []struct {
		method, params, accept, media string
		code                          int64
	}{
		{"SubscribeToTask", `{"id":"ended"}`, "", "application/json", -32004},
		{"SubscribeToTask", `{"id":"ended"}`, both, "application/json", -32004},
		{"SubscribeToTask", `{"id":"none"}`, every, "application/json", -32001},
		{"SendStreamingMessage", `{}`, every, "application/json", -32602},
		{"tasks/resubscribe", `{"id":"ended"}`, every, "application/json", -32004},
		{"tasks/resubscribe", `{"id":"none"}`, every, "application/json", -32001},
		{"SubscribeToTask", `{"id":"ended"}`, stream, stream, -32004},
		{"tasks/resubscribe", `{"id":"none"}`, stream, stream, -32001},
	} {
		for _, path := range []string{"/a2a", "/a2a/"} {
			body := `{"jsonrpc":"2.0","id":"c-1","method":"` + c.method + `","params":` + c.params + `}`
			header := []string{"Accept", c.accept}
			if c.accept == "" {
				header = nil
			}
			status, media, got := open(path, body, header...)
			if status != 200 || media != c.media || got.Get("error.code").Int() != c.code || got.Get("id").String() != "c-1" {
				t.Errorf("%s %s as %q: %d %s %s", path, body, c.accept, status, media, got.Raw)
			}
		}
	}
}

// The proto of A2A subscribes by GET, its text and its clients by POST.
func TestSubscribeIsTakenByGETAndPOST(t *testing.T) {
	t.Parallel()
	d := newLab(t).endpoint(nil)
	worker := d.work("live").out(begins, turns, says)
	d.await("live", func(v runs.Header) bool { return v.State == runs.StateWorking })
	for _, method := range []string{"GET", "POST"} {
		ctx, cancel := context.WithTimeout(t.Context(), time.Minute)
		r, err := http.NewRequestWithContext(ctx, method, d.url+"/a2a/v1/tasks/live:subscribe", nil)
		if err != nil {
			t.Fatal(err)
		}
		r.Close = true
		r.Header.Set("Authorization", "Bearer "+token)
		r.Header.Set("A2A-Version", "1.0")
		answer, err := http.DefaultClient.Do(r)
		if err != nil {
			t.Fatal(err)
		}
		first := ""
		lines := bufio.NewScanner(answer.Body)
		for begun := false; !begun && lines.Scan(); {
			first, begun = strings.CutPrefix(lines.Text(), "data: ")
		}
		answer.Body.Close()
		cancel()
		if answer.StatusCode != http.StatusOK || gjson.Get(first, "task.id").String() != "live" {
			t.Errorf("%s: %d %s", method, answer.StatusCode, first)
		}
		if status, got := d.ask(method, "/a2a/v1/tasks/nope:subscribe", "", "A2A-Version",
			"1.0"); status != http.StatusNotFound || strings.Contains(got.Raw, "nope:subscribe") {
			t.Errorf("%s: %d %s", method, status, got.Raw)
		}
	}
	worker.out(answers, ends).exit(runs.ReasonExited, 0)
	d.await("live", func(v runs.Header) bool { return v.State == runs.StateCompleted })
}

func TestAnUnknownVerbIsNoPartOfATaskID(t *testing.T) {
	t.Parallel()
	d := newLab(t).endpoint(nil)
	for _, c := range []struct {
		method, path string
		status       int
	}{
		{"GET", "nope:watch", 400}, {"POST", "nope:watch", 400}, {"GET", "nope:", 400}, {"GET", "nope%3Awatch", 400},
		{"GET", "a%2Fb:watch", 400},
		{"GET", "nope:subscribe:watch", 400}, {"GET", "nope:watch:subscribe", 400}, {"GET", "nope:cancel", 405},
		{"HEAD", "nope:subscribe", 405}, {"HEAD", "nope:cancel", 405},
		{"POST", "nope:cancel", 404}, {"GET", "nope", 404},
	} {
		status, got := d.ask(c.method, "/a2a/v1/tasks/"+c.path, "", "A2A-Version", "1.0")
		if status != c.status || c.method != "HEAD" && got.Get("error.code").Int() != int64(status) ||
			strings.Contains(got.Raw, ":watch") {
			t.Errorf("%s %s: %d %s, want %d", c.method, c.path, status, got.Raw, c.status)
		}
	}
}

// What a task is told to be has the time of its record: whoever follows it, and
// whenever, is told the same.
func TestTwoStreamsOfATaskTellTheSameTime(t *testing.T) {
	t.Parallel()
	d := newLab(t).endpoint(nil)
	worker := d.work("both").out(begins, turns, says)
	d.await("both", func(v runs.Header) bool { return v.State == runs.StateWorking })
	encode := func(v any) string {
		b, err := json.Marshal(v)
		if err != nil {
			t.Fatal(err)
		}
		return string(b)
	}
	c := d.client(surfaces[0], token)
	told := map[string]string{}
	for again := false; !again; { // a message has the name of the record that it tells
		for e, err := range c.SubscribeToTask(t.Context(), &sdk.SubscribeToTaskRequest{ID: "both"}) {
			if err != nil {
				t.Fatal(err)
			}
			m := e.(*sdk.Task).Status.Message
			before, known := told[m.ID]
			if again = known; known && before != encode(m) {
				t.Errorf("one stream has\n%s\nthe other\n%s", before, encode(m))
			}
			told[m.ID] = encode(m)
			break
		}
	}
	worker.out(answers, ends).exit(runs.ReasonExited, 0)
	d.await("both", func(v runs.Header) bool { return v.State == runs.StateCompleted })
	var ended []string
	for range 2 {
		task, err := c.GetTask(t.Context(), &sdk.GetTaskRequest{ID: "both"})
		if err != nil {
			t.Fatal(err)
		}
		ended = append(ended, encode(task))
	}
	if ended[0] != ended[1] || !strings.Contains(ended[0], `"timestamp"`) {
		t.Errorf("one answer is\n%s\nthe next\n%s", ended[0], ended[1])
	}
}
