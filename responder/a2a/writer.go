package a2a

import (
	"bytes"
	"net/http"
	"time"

	"github.com/tidwall/gjson"
)

// deadlineWriter limits the time of each write to a client. The HTTP server
// resets the deadline when the request ends.
type deadlineWriter struct {
	http.ResponseWriter
	control *http.ResponseController
	time    time.Duration
}

func (p *deadlineWriter) Write(b []byte) (int, error) {
	_ = p.control.SetWriteDeadline(time.Now().Add(p.time))
	return p.ResponseWriter.Write(b)
}

// Flush implements what a2a-go needs of a stream writer.
func (p *deadlineWriter) Flush() { _ = p.control.Flush() }

// deferredStream delays the beginning of a stream until its first event: a2a-go
// begins it before it knows whether the request is valid. A refused request
// then gets an ordinary response: over HTTP+JSON with the status of its error,
// over JSON-RPC with 200.
type deferredStream struct {
	*deadlineWriter
	rpc     bool
	held    bool
	refused bool // the rest is discarded
	begun   bytes.Buffer
}

func (o *deferredStream) WriteHeader(status int) {
	if status == http.StatusOK && o.Header().Get("Content-Type") == "text/event-stream" {
		o.held = true
		return
	}
	o.deadlineWriter.WriteHeader(status)
}

func (o *deferredStream) Write(b []byte) (int, error) {
	switch {
	case o.refused:
		return len(b), nil
	case !o.held:
		return o.deadlineWriter.Write(b)
	}
	o.begun.Write(b)
	if !bytes.HasSuffix(o.begun.Bytes(), []byte("\n\n")) {
		return len(b), nil
	}
	o.held = false
	_, event, _ := bytes.Cut(o.begun.Bytes(), []byte("data: "))
	status := http.StatusOK
	failure := gjson.GetBytes(event, "error")
	if !o.rpc {
		status = int(failure.Get("code").Int())
	}
	if failure.IsObject() && (o.rpc || status >= 400) {
		o.refused = true
		head := o.Header()
		head.Set("Content-Type", "application/json")
		head.Set("Cache-Control", "no-store")
		head.Del("X-Accel-Buffering")
		o.deadlineWriter.WriteHeader(status)
		_, err := o.deadlineWriter.Write(bytes.TrimSuffix(event, []byte("\n")))
		return len(b), err
	}
	o.deadlineWriter.WriteHeader(http.StatusOK)
	if _, err := o.deadlineWriter.Write(o.begun.Bytes()); err != nil {
		return 0, err
	}
	o.begun.Reset()
	return len(b), nil
}

func (o *deferredStream) Flush() {
	if !o.held {
		o.deadlineWriter.Flush()
	}
}

// bufferedAnswer buffers a JSON-RPC response, and adds the result that a2a-go
// omits for calls without one.
type bufferedAnswer struct {
	http.ResponseWriter
	body bytes.Buffer
}

func (w *bufferedAnswer) Write(b []byte) (int, error) { return w.body.Write(b) }

// send writes the response, with a result.
func (w *bufferedAnswer) send(result string) {
	answer := bytes.TrimSpace(w.body.Bytes())
	if o := gjson.ParseBytes(answer); o.IsObject() && !o.Get("result").Exists() && !o.Get("error").Exists() {
		answer = append(answer[:len(answer)-1:len(answer)-1], `,"result":`+result+"}"...)
	}
	_, _ = w.ResponseWriter.Write(append(answer, '\n'))
}
