package a2a

import (
	"bytes"
	"net/http"
	"time"

	"github.com/tidwall/gjson"
)

// patient gives a client some time for each piece that is written to it. The
// HTTP server lifts the limit when the request ends.
type patient struct {
	http.ResponseWriter
	control *http.ResponseController
	time    time.Duration
}

func (p *patient) Write(b []byte) (int, error) {
	_ = p.control.SetWriteDeadline(time.Now().Add(p.time))
	return p.ResponseWriter.Write(b)
}

// Flush is what a2a-go asks of a writer of streams.
func (p *patient) Flush() { _ = p.control.Flush() }

// opening holds back the beginning of a stream until it shows whether there is
// one: a2a-go begins it before it knows. A request that is refused is then
// answered as any other: over HTTP+JSON with the status of its error, over
// JSON-RPC with 200.
type opening struct {
	*patient
	rpc     bool
	held    bool
	refused bool // what else comes has no place
	begun   bytes.Buffer
}

func (o *opening) WriteHeader(status int) {
	if status == http.StatusOK && o.Header().Get("Content-Type") == "text/event-stream" {
		o.held = true
		return
	}
	o.patient.WriteHeader(status)
}

func (o *opening) Write(b []byte) (int, error) {
	switch {
	case o.refused:
		return len(b), nil
	case !o.held:
		return o.patient.Write(b)
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
		o.patient.WriteHeader(status)
		_, err := o.patient.Write(bytes.TrimSuffix(event, []byte("\n")))
		return len(b), err
	}
	o.patient.WriteHeader(http.StatusOK)
	if _, err := o.patient.Write(o.begun.Bytes()); err != nil {
		return 0, err
	}
	o.begun.Reset()
	return len(b), nil
}

func (o *opening) Flush() {
	if !o.held {
		o.patient.Flush()
	}
}

// whole takes an answer over JSON-RPC as a whole, and gives it a result where
// a2a-go leaves it without: one of a call that has nothing to say.
type whole struct {
	http.ResponseWriter
	body bytes.Buffer
}

func (w *whole) Write(b []byte) (int, error) { return w.body.Write(b) }

// send writes the answer, with a result.
func (w *whole) send(result string) {
	answer := bytes.TrimSpace(w.body.Bytes())
	if o := gjson.ParseBytes(answer); o.IsObject() && !o.Get("result").Exists() && !o.Get("error").Exists() {
		answer = append(answer[:len(answer)-1:len(answer)-1], `,"result":`+result+"}"...)
	}
	_, _ = w.ResponseWriter.Write(append(answer, '\n'))
}
