package e2e

import (
	"io"
	"net/http"
	"net/http/cookiejar"
	"net/url"
	"strings"
	"testing"
)

// A responder serves the page, too: its link signs in, across a restart, and not at another
// responder of the cluster.
func TestResponderServesThePage(t *testing.T) {
	t.Parallel()
	nats, data := startNATS(t), t.TempDir()
	normalizer := begin(t, nil, "normalizer", "--nats", nats, "--data-dir", t.TempDir())
	normalizer.Await(normalizer.Stderr, "normalizer reading")
	serve := func(data, http string) (address string, stop func()) {
		r := begin(t, nil, "responder", "--nats", nats, "--data-dir", data, "--http", http)
		r.Await(r.Stdout, "ready http=")
		_, address, _ = strings.Cut(strings.TrimSpace(r.Stdout.String()), "http://")
		return address, r.Kill
	}
	here, kill := serve(data, "127.0.0.1:0")
	other, _ := serve(t.TempDir(), "127.0.0.1:0")
	link, code := execute(t, "page", "--nats", nats, "--data-dir", data, "--http", here)
	if link = strings.TrimSpace(link); code != 0 || !strings.HasPrefix(link, "http://"+here+"/signin?code=") {
		t.Fatalf("exit %d: %s", code, link)
	}
	jar, err := cookiejar.New(nil)
	if err != nil {
		t.Fatal(err)
	}
	browser := http.Client{Jar: jar}
	defer browser.CloseIdleConnections()
	get := func(address string) (int, string) {
		r, err := http.NewRequestWithContext(t.Context(), http.MethodGet, address, nil)
		if err != nil {
			t.Fatal(err)
		}
		r.Header.Set("Accept", "text/html,application/json;q=0.9")
		answer, err := browser.Do(r)
		if err != nil {
			t.Fatal(err)
		}
		defer answer.Body.Close()
		body, err := io.ReadAll(answer.Body)
		if err != nil {
			t.Fatal(err)
		}
		return answer.StatusCode, string(body)
	}
	if code, body := get(strings.Replace(link, here, other, 1)); code != http.StatusForbidden {
		t.Errorf("the link elsewhere: %d %s", code, body)
	}
	if code, body := get(link); code != http.StatusOK || !strings.Contains(body, `<div id="app">`) {
		t.Errorf("the link: %d %s", code, body)
	}
	if code, body := get("http://" + here + "/v1/runs"); code != http.StatusOK {
		t.Errorf("signed in: %d %s", code, body)
	}
	// Browsers send the cookie to the other responder, which has the same host, too.
	site := &url.URL{Scheme: "http", Host: other, Path: "/"}
	if len(jar.Cookies(site)) != 1 {
		t.Fatalf("cookies %v", jar.Cookies(site))
	}
	if code, body := get("http://" + other + "/v1/runs"); code != http.StatusUnauthorized {
		t.Errorf("elsewhere: %d %s", code, body)
	}
	kill()
	serve(data, here)
	if code, body := get("http://" + here + "/v1/runs"); code != http.StatusOK {
		t.Errorf("after a restart: %d %s", code, body)
	}
}
