package security

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"io"
	"net"
	"net/http"
	"os"
	"path/filepath"
	"strconv"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/linesman/linesman/test/fixture"
)

// house is a `linesman up`.
type house struct {
	data, http, token string
	pid               int
}

func newHouse(t *testing.T) *house {
	t.Helper()
	h := &house{data: filepath.Join(t.TempDir(), "data")}
	env := []string{"HOME=" + t.TempDir(), "PATH=" + os.Getenv("PATH")}
	at := fixture.Up(t, program(t, "linesman"), h.data, env)
	h.http, h.pid, h.token = at.HTTP, at.PID, at.Token
	return h
}

// memory is what a process has of it, and the most that it had since forget.
func (h *house) memory(t *testing.T) (now, most int64) {
	t.Helper()
	b, err := os.ReadFile(fmt.Sprintf("/proc/%d/status", h.pid))
	if err != nil {
		t.Skipf("memory cannot be measured here: %v", err)
	}
	for line := range strings.Lines(string(b)) {
		f := strings.Fields(line)
		if len(f) < 2 {
			continue
		}
		kb, _ := strconv.ParseInt(f[1], 10, 64)
		switch f[0] {
		case "VmRSS:":
			now = kb << 10
		case "VmHWM:":
			most = kb << 10
		}
	}
	return now, most
}

func (h *house) forget(t *testing.T) {
	t.Helper()
	if err := os.WriteFile(fmt.Sprintf("/proc/%d/clear_refs", h.pid), []byte("5"), 0o600); err != nil {
		t.Skipf("memory cannot be measured here: %v", err)
	}
}

func (h *house) files(t *testing.T) int {
	t.Helper()
	all, err := os.ReadDir(fmt.Sprintf("/proc/%d/fd", h.pid))
	if err != nil {
		t.Skipf("descriptors cannot be counted here: %v", err)
	}
	return len(all)
}

// ask makes a request with the token. An error is one of the connection.
func (h *house) ask(ctx context.Context, client *http.Client, method, path string, body io.Reader) (int, error) {
	r, err := http.NewRequestWithContext(ctx, method, h.http+path, body)
	if err != nil {
		return 0, err
	}
	r.Header.Set("Authorization", "Bearer "+h.token)
	r.Header.Set("Content-Type", "application/json")
	r.Header.Set("Accept", "application/json, text/event-stream")
	r.Header.Set("A2A-Version", "1.0")
	res, err := client.Do(r)
	if err != nil {
		return 0, err
	}
	defer res.Body.Close()
	_, err = io.Copy(io.Discard, res.Body)
	return res.StatusCode, err
}

// meanwhile asks for something small again and again until it is stopped, and
// then reports the longest that it took.
func (h *house) meanwhile(t *testing.T) (stop func() (longest time.Duration, times int)) {
	t.Helper()
	ctx, cancel := context.WithCancel(t.Context())
	client := &http.Client{Transport: &http.Transport{DisableKeepAlives: true}}
	var longest time.Duration
	var times int
	ended := make(chan struct{})
	go func() {
		defer close(ended)
		for ctx.Err() == nil {
			began := time.Now()
			code, err := h.ask(context.WithoutCancel(ctx), client, "GET", "/v1/runs", nil)
			if code != http.StatusOK {
				t.Errorf("meanwhile: %d, %v", code, err)
				return
			}
			longest, times = max(longest, time.Since(began)), times+1
		}
	}()
	return func() (time.Duration, int) {
		cancel()
		<-ended
		return longest, times
	}
}

// endless is a body that does not end by itself.
type endless struct {
	head, more string
	left       int
}

func (e *endless) Read(p []byte) (int, error) {
	if e.left <= 0 {
		return 0, io.EOF
	}
	if e.head != "" {
		n := copy(p, e.head)
		e.head = e.head[n:]
		return n, nil
	}
	n := 0
	for n < len(p) {
		n += copy(p[n:], e.more)
	}
	e.left -= n
	return n, nil
}

// What is huge or deep is refused, takes memory with a bound, and keeps nobody
// waiting.
func TestHugeAndDeepBodiesAreBoundedAndOthersAreServed(t *testing.T) {
	h := newHouse(t)
	const most = 1<<20 - 1<<10 // just what is read
	arrays := strings.Repeat("[", most/2) + strings.Repeat("]", most/2)
	keys := manyKeys(most - 1<<10)
	objects := strings.Repeat(`{"a":`, most/7) + "1" + strings.Repeat("}", most/7)
	call := func(name, args string) string {
		return `{"jsonrpc":"2.0","id":1,"method":"` + name + `","params":` + args + `}`
	}
	for surface, c := range map[string]struct {
		path string
		wrap func(deep string) string
	}{
		"mcp": {"/mcp", func(deep string) string {
			return call("tools/call", `{"name":"_codex_local_status","arguments":{"x":`+deep+`}}`)
		}},
		"rest": {"/v1/runs", func(deep string) string { return `{"task":` + deep + `}` }},
		"a2a": {"/a2a", func(deep string) string {
			return call("SendMessage", `{"message":{"messageId":"m","role":"ROLE_USER","parts":[{"data":`+deep+`}]}}`)
		}},
	} {
		for name, body := range map[string]func() io.Reader{
			"huge": func() io.Reader {
				return &endless{head: `{"task":"`, more: strings.Repeat("x", 4096),
					left: 64 << 20}
			},
			"huge array":     func() io.Reader { return &endless{head: `[`, more: strings.Repeat("1,", 2048), left: 64 << 20} },
			"open arrays":    func() io.Reader { return strings.NewReader(strings.Repeat("[", most)) },
			"deep arrays":    func() io.Reader { return strings.NewReader(arrays) },
			"deep objects":   func() io.Reader { return strings.NewReader(objects) },
			"deep arguments": func() io.Reader { return strings.NewReader(c.wrap(arrays[256 : len(arrays)-256])) },
			"deep values":    func() io.Reader { return strings.NewReader(c.wrap(objects[2500 : len(objects)-500])) },
			"many keys":      func() io.Reader { return strings.NewReader(c.wrap(keys)) },
		} {
			t.Run(surface+"/"+name, func(t *testing.T) {
				h.forget(t)
				before, _ := h.memory(t)
				canary, stop := fixture.StartCanary(t), h.meanwhile(t)
				const at = 8
				client := &http.Client{Transport: &http.Transport{DisableKeepAlives: true}, Timeout: time.Minute}
				codes := make([]int, at)
				var all sync.WaitGroup
				for i := range at {
					all.Go(func() {
						code, err := h.ask(t.Context(), client, "POST", c.path, body())
						var op *net.OpError
						if err != nil && !errors.As(err, &op) && !errors.Is(err, io.EOF) { // it may close before all is sent
							t.Errorf("%v", err)
						}
						codes[i] = code
					})
				}
				all.Wait()
				longest, times := stop()
				after, peak := h.memory(t)
				t.Logf("answers %v; %d MiB before, %d at most, %d after; %d others served, in %v at most", codes, before>>20,
					peak>>20, after>>20, times, longest)
				// The dearest that is taken, a message over A2A with a hundred
				// thousand keys in its data, takes 24 MiB while it is read.
				if peak-before > at*40<<20 {
					t.Errorf("%d requests of at most 1 MiB took %d MiB", at, (peak-before)>>20)
				}
				for _, code := range codes {
					if code >= 500 {
						t.Errorf("answered with %d", code)
					}
				}
				canary.Within("somebody else was served", longest, 5*time.Second)
			})
		}
	}
}

func manyKeys(most int) string {
	var b bytes.Buffer
	b.WriteByte('{')
	for i := 0; b.Len() < most-32; i++ {
		fmt.Fprintf(&b, `"%d":0,`, i)
	}
	b.WriteString(`"z":0}`)
	return b.String()
}

// Thousands of connections that say nothing, or say it slowly, keep nobody
// out, and are not held.
func TestAFloodOfConnectionsKeepsNobodyOut(t *testing.T) {
	h := newHouse(t)
	address := strings.TrimPrefix(h.http, "http://")
	before, files := func() (int64, int) { now, _ := h.memory(t); return now, h.files(t) }()
	h.forget(t)
	canary, stop := fixture.StartCanary(t), h.meanwhile(t)
	const many, bound = 3000, 2048
	var conns []net.Conn
	defer func() {
		for _, c := range conns {
			_ = c.Close()
		}
	}()
	for i := range many {
		c, err := net.DialTimeout("tcp", address, patience)
		if err != nil {
			t.Fatal(err)
		}
		conns = append(conns, c)
		head := []string{"", "GET /v1/runs HTTP/1.1\r\nHost: loc",
			"POST /mcp HTTP/1.1\r\nHost: localhost\r\nContent-Length: 1000000\r\n\r\n{",
			"GET / HTTP/1.1\r\nHost: localhost\r\nX-A: " + strings.Repeat("a", 30<<10)}[i%4]
		_, _ = io.WriteString(c, head) // it may be closed already
	}
	soon(t, "the others to be served", func() bool {
		code, err := h.ask(t.Context(), http.DefaultClient, "GET", "/v1/runs", nil)
		return err == nil && code == http.StatusOK
	})
	http.DefaultClient.CloseIdleConnections()
	held := h.files(t) - files
	longest, times := stop()
	_, peak := h.memory(t)
	t.Logf("%d connections: %d descriptors held; %d MiB before, %d at most; %d others served, in %v at most", many, held,
		before>>20, peak>>20, times, longest)
	if held > bound+88 {
		t.Errorf("%d descriptors are held, want at most the bound of %d, and some", held, bound)
	}
	if peak-before > 128<<20 {
		t.Errorf("they took %d MiB", (peak-before)>>20)
	}
	canary.Within("somebody else was served", longest, 2*time.Second)
}
