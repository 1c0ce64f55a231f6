package adcp

import (
	"bufio"
	"bytes"
	"fmt"
	"io"
	"net/http"
	"net/http/httptest"
	"net/http/httputil"
	"net/url"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"sync"
	"sync/atomic"
	"testing"

	"github.com/tidwall/gjson"

	"github.com/linesman/linesman/test/fixture"
	"github.com/linesman/linesman/test/fixture/adcptest"
)

// codex is an agent that says hello, or fails, once it is released.
const codex = `case "$*" in *hold*) while [ ! -e %[1]q/go ]; do sleep 0.05; done;; esac
case "$*" in *fail*) cat %[2]q; exit 1;; esac
cat %[3]q
`

// The client of the SDK takes linesman for an agent of AdCP 3, over MCP and over A2A: it submits runs, repeats a
// request, is refused, follows runs to their ends, also over a restart of the server. Every envelope that it gets fits
// the schema of the contract.
func TestTheClientOfAdCPDrivesRuns(t *testing.T) {
	fixture.Long(t, "installs the SDK of Node.js")
	node := fixture.Need(t, "AGENTS", "node")
	dir := fixture.Install(t, "AGENTS", "test", "clients", "adcp")
	for protocol, path := range map[string]string{"mcp": "/adcp/mcp", "a2a": ""} {
		t.Run(protocol, func(t *testing.T) {
			lab, data := t.TempDir(), t.TempDir()
			write := func(name, text string) string {
				t.Helper()
				file := filepath.Join(lab, name)
				if err := os.WriteFile(file, []byte(text), 0o700); err != nil {
					t.Fatal(err)
				}
				return file
			}
			corpus := func(name string) string { return fixture.Path(t, "test", "corpus", "codex", name+".jsonl") }
			settings := write("linesman.toml", fmt.Sprintf("[work]\nroots = [%q]\n[agents.codex]\ncommand = [\"/bin/sh\", %q]\n"+
				"[agents.parrot]\nacp = [\"/bin/sh\", %q, \"--talk\"]\n", lab,
				write("codex.sh", fmt.Sprintf(codex, lab, corpus("failed"), corpus("hello"))), filepath.Join(dir, "parrot.sh")))
			start := func() *fixture.Server {
				t.Helper()
				return fixture.Up(t, program, data, append(os.Environ(), "HOME="+t.TempDir()), "--config", settings)
			}
			up := start()
			token, text, code := fixture.Run(t, exec.CommandContext(t.Context(), program, "token", "create", "adcp", "--scope",
				"read,submit", "--data-dir", data))
			if code != 0 {
				t.Fatal(text)
			}
			w := newWatched(t, up.HTTP)
			cmd := exec.CommandContext(t.Context(), node, filepath.Join(dir, "client.mjs"), protocol, w.url+path,
				strings.TrimSpace(token), lab)
			cmd.Env = []string{"PATH=" + os.Getenv("PATH"), "HOME=" + t.TempDir(), "LANG=C.UTF-8"}
			var stderr bytes.Buffer
			cmd.Stderr = &stderr
			in, err := cmd.StdinPipe()
			if err != nil {
				t.Fatal(err)
			}
			out, err := cmd.StdoutPipe()
			if err != nil {
				t.Fatal(err)
			}
			if err := cmd.Start(); err != nil {
				t.Fatal(err)
			}
			last := ""
			for lines := bufio.NewScanner(out); lines.Scan(); {
				switch last = lines.Text(); last {
				case "restart":
					up.Stop()
					up = start()
					w.target.Store(&up.HTTP)
				case "release":
					write("go", "")
				default:
					continue
				}
				if _, err := io.WriteString(in, "\n"); err != nil {
					t.Fatal(err)
				}
			}
			if err := cmd.Wait(); err != nil || last != "done" {
				t.Fatalf("%v, at %q\n%s", err, last, stderr.Bytes())
			}
			w.check(12)
		})
	}
}

// watched is a proxy before a server, which keeps the envelopes that pass.
type watched struct {
	t      *testing.T
	url    string
	target atomic.Pointer[string]

	mu   sync.Mutex
	seen []string
}

func newWatched(t *testing.T, target string) *watched {
	w := &watched{t: t}
	w.target.Store(&target)
	proxy := &httputil.ReverseProxy{
		Rewrite: func(r *httputil.ProxyRequest) {
			to, err := url.Parse(*w.target.Load())
			if err != nil {
				t.Error(err)
				return
			}
			r.Out.Header.Del("Accept-Encoding")
			r.SetURL(to)
		},
		ModifyResponse: func(r *http.Response) error {
			if strings.HasSuffix(r.Request.URL.Path, ".json") { // the card: its addresses are those of the server
				body, err := io.ReadAll(r.Body)
				body = bytes.ReplaceAll(body, []byte(*w.target.Load()), []byte(w.url))
				r.Body, r.ContentLength = io.NopCloser(bytes.NewReader(body)), int64(len(body))
				r.Header.Set("Content-Length", fmt.Sprint(len(body)))
				return err
			}
			r.Body = &passing{ReadCloser: r.Body, keep: w.keep}
			return nil
		},
	}
	server := httptest.NewServer(proxy)
	t.Cleanup(server.Close)
	w.url = server.URL
	return w
}

// passing is a body whose lines are kept.
type passing struct {
	io.ReadCloser
	all  bytes.Buffer
	keep func([]byte)
}

func (p *passing) Read(b []byte) (int, error) {
	n, err := p.ReadCloser.Read(b)
	p.all.Write(b[:n])
	return n, err
}

func (p *passing) Close() error {
	for line := range bytes.Lines(p.all.Bytes()) {
		p.keep(bytes.TrimPrefix(bytes.TrimSpace(line), []byte("data: ")))
	}
	return p.ReadCloser.Close()
}

func (w *watched) keep(line []byte) {
	w.mu.Lock()
	defer w.mu.Unlock()
	result := gjson.GetBytes(line, "result")
	if said := result.Get("structuredContent"); said.Exists() {
		w.seen = append(w.seen, said.Raw)
	}
	result.Get("artifacts.#.parts.#.data|@flatten").ForEach(func(_, said gjson.Result) bool {
		w.seen = append(w.seen, said.Raw)
		return true
	})
}

// check checks the envelopes, which are at least so many, and the results in them.
func (w *watched) check(least int) {
	w.t.Helper()
	w.mu.Lock()
	defer w.mu.Unlock()
	if len(w.seen) < least {
		w.t.Errorf("%d envelopes", len(w.seen))
	}
	for _, one := range w.seen {
		adcptest.Envelope(w.t, []byte(one))
		if version := gjson.Get(one, "adcp_version").String(); version != "3.1" {
			w.t.Errorf("the release is %q: %s", version, one)
		}
		if result := gjson.Get(one, "result"); result.Exists() {
			adcptest.Envelope(w.t, []byte(result.Raw))
		}
	}
}
