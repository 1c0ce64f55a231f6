package e2e

import (
	"io"
	"net/http"
	"net/http/cookiejar"
	"net/url"
	"strings"
	"testing"

	"github.com/linesman/linesman/test/fixture"
)

// cluster are two responders on one NATS server, with a data directory each.
type cluster struct {
	t       *testing.T
	nats    string
	data    [2]string // of the responders
	address [2]string
	kill    [2]func()
}

func newCluster(t *testing.T) *cluster {
	c := &cluster{t: t, nats: startNATS(t), data: [2]string{t.TempDir(), t.TempDir()}}
	normalizer := begin(t, nil, "normalizer", "--nats", c.nats, "--data-dir", t.TempDir())
	normalizer.Await(normalizer.Stderr, "normalizer reading")
	for i := range c.data {
		c.serve(i, fixture.FreeAddresses(t, 1)[0]) // it is served there again
	}
	return c
}

func (c *cluster) serve(i int, http string) {
	r := begin(c.t, nil, "responder", "--nats", c.nats, "--data-dir", c.data[i], "--http", http)
	r.Await(r.Stdout, "ready http=")
	_, c.address[i], _ = strings.Cut(strings.TrimSpace(r.Stdout.String()), "http://")
	c.kill[i] = r.Kill
}

// do runs a command as the operator, whose data directory no server has.
func (c *cluster) do(args ...string) string {
	c.t.Helper()
	out, code := execute(c.t, append(args, "--nats", c.nats, "--data-dir", c.t.TempDir())...)
	if code != 0 {
		c.t.Fatalf("%s: exit %d: %s", args, code, out)
	}
	return strings.TrimSpace(out)
}

// visit is a request with headers, by a browser if there is one.
func visit(t *testing.T, browser *http.Client, method, address, body string, header ...string) (int, string) {
	t.Helper()
	r, err := http.NewRequestWithContext(t.Context(), method, address, strings.NewReader(body))
	if err != nil {
		t.Fatal(err)
	}
	for i := 0; i < len(header); i += 2 {
		r.Header.Set(header[i], header[i+1])
	}
	answer, err := browser.Do(r)
	if err != nil {
		t.Fatal(err)
	}
	defer answer.Body.Close()
	got, err := io.ReadAll(answer.Body)
	if err != nil {
		t.Fatal(err)
	}
	return answer.StatusCode, string(got)
}

func newBrowser(t *testing.T) *http.Client {
	jar, err := cookiejar.New(nil)
	if err != nil {
		t.Fatal(err)
	}
	browser := &http.Client{Jar: jar}
	t.Cleanup(browser.CloseIdleConnections)
	return browser
}

var asBrowser = []string{"Accept", "text/html,application/json;q=0.9"}

// A responder serves the page, too: a link signs in at any responder of the cluster, once, and the
// session counts at all of them, also after kill -9 of the one that made it.
func TestResponderServesThePage(t *testing.T) {
	t.Parallel()
	c := newCluster(t)
	link := c.do("page", "--http", c.address[0])
	if !strings.HasPrefix(link, "http://"+c.address[0]+"/signin?code=") {
		t.Fatalf("link %s", link)
	}
	browser := newBrowser(t)
	get := func(address string) (int, string) { return visit(t, browser, "GET", address, "", asBrowser...) }
	elsewhere := strings.Replace(link, c.address[0], c.address[1], 1)
	if code, body := get(elsewhere); code != http.StatusOK || !strings.Contains(body, `<div id="app">`) {
		t.Errorf("the link: %d %s", code, body)
	}
	if code, body := visit(t, newBrowser(t), "GET", link, "", asBrowser...); code != http.StatusForbidden {
		t.Errorf("the link again, by somebody else: %d %s", code, body)
	}
	for _, address := range c.address {
		if code, body := get("http://" + address + "/v1/runs"); code != http.StatusOK {
			t.Errorf("signed in, at %s: %d %s", address, code, body)
		}
		if code, body := visit(t, browser, "GET", "http://"+address+"/v1/runs", "", "Origin",
			"http://127.0.0.1:1"); code != http.StatusUnauthorized {
			t.Errorf("with a foreign origin, at %s: %d %s", address, code, body)
		}
	}
	if n := len(browser.Jar.Cookies(&url.URL{Scheme: "http", Host: c.address[1], Path: "/"})); n != 1 {
		t.Errorf("%d cookies", n)
	}
	beside, _ := execute(t, "page", "--nats", "nats://127.0.0.1:1", "--data-dir", c.data[1], "--http", c.address[1])
	if code, body := visit(t, newBrowser(t), "GET", strings.TrimSpace(beside), "", asBrowser...); code != http.StatusOK {
		t.Errorf("the link %q of the token file: %d %s", beside, code, body)
	}
	c.kill[1]()
	if code, body := get("http://" + c.address[0] + "/v1/runs"); code != http.StatusOK {
		t.Errorf("after the other responder was killed: %d %s", code, body)
	}
	c.data[1] = t.TempDir() // as in a new container
	c.serve(1, c.address[1])
	if code, body := get("http://" + c.address[1] + "/v1/runs"); code != http.StatusOK {
		t.Errorf("after a restart: %d %s", code, body)
	}
}

// A token of the operator is accepted by all responders, with its sessions. Removed, it is refused by
// all of them within seconds, and after a restart.
func TestRespondersShareTokens(t *testing.T) {
	t.Parallel()
	c := newCluster(t)
	token := c.do("token", "create", "dashboard", "--scope", "read")
	if out := c.do("token", "list", "--json"); !strings.Contains(out, `"name":"dashboard"`) || strings.Contains(out, token) {
		t.Errorf("list: %s", out)
	}
	bearer := []string{"Authorization", "Bearer " + token}
	browser := newBrowser(t)
	if code, body := visit(t, browser, "POST", "http://"+c.address[0]+"/session", `{"token":"`+token+`"}`, "Content-Type",
		"application/json"); code != http.StatusOK {
		t.Fatalf("sign in: %d %s", code, body)
	}
	each := func(want int) (wrong string) {
		for _, address := range c.address {
			for _, try := range []struct {
				client *http.Client
				header []string
			}{{http.DefaultClient, bearer}, {browser, nil}} {
				if code, body := visit(t, try.client, "GET", "http://"+address+"/v1/runs", "", try.header...); code != want {
					wrong += address + ": " + body
				}
			}
		}
		return wrong
	}
	all := func(want int, what string) {
		t.Helper()
		var wrong string
		if !fixture.Poll(fixture.Patience, func() bool { wrong = each(want); return wrong == "" }) {
			t.Errorf("%s: %s", what, wrong)
		}
	}
	all(http.StatusOK, "it is not accepted")
	c.kill[0]()
	if code, body := visit(t, browser, "GET", "http://"+c.address[1]+"/v1/runs", ""); code != http.StatusOK {
		t.Errorf("a session of a responder that was killed: %d %s", code, body)
	}
	c.serve(0, c.address[0])
	all(http.StatusOK, "after kill -9")
	c.do("token", "remove", "dashboard")
	all(http.StatusUnauthorized, "it is accepted still")
	c.kill[1]()
	c.serve(1, c.address[1])
	all(http.StatusUnauthorized, "after its removal and kill -9")
}
