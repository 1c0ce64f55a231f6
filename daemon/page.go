package daemon

import (
	"bytes"
	"cmp"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"net"
	"net/http"
	"net/url"
	"os"
	"time"

	"github.com/linesman/linesman/bus/embedded"
	"github.com/linesman/linesman/daemon/datadir"
	"github.com/linesman/linesman/responder/httpserver"
)

// SignInLink returns a link that signs a browser in with all scopes: once, within ten
// minutes. It is "" without HTTP. The link is a secret.
func (r *responderRole) SignInLink() string {
	if r.http == nil {
		return ""
	}
	return reachable(r.URL()) + r.http.SignInPath()
}

// SignInLink is [responderRole.SignInLink] of the process that serves the page: the `linesman up`
// of the data directory, which is started in the background if necessary, or, with a server
// of one's own, a responder at the address of the setting `http`.
func SignInLink(ctx context.Context, c Config) (string, error) {
	base, err := c.pageURL(ctx)
	switch {
	case err != nil:
		return "", err
	case c.Settings.NATS != "":
		return c.sharedLink(ctx, base)
	}
	return c.askedLink(ctx, base, func() bool {
		here, err := datadir.ReadInstance(c.Settings.DataDir)
		return err == nil && reachable(here.HTTP) == base
	})
}

// askedLink asks the server at base for a link, with the token of the data directory. Still reports whether that server
// listens there: it is asked once the connection is made, as another process may have got the port meanwhile.
func (c Config) askedLink(ctx context.Context, base string, still func() bool) (string, error) {
	file := tokenFile(c.Settings)
	if _, err := os.Stat(file); err != nil { // else it would be created
		return "", fmt.Errorf("page: no linesman has served HTTP on this data directory yet: %w", err)
	}
	token, err := httpserver.TokenFile(file)
	if err != nil {
		return "", err
	}
	ctx, cancel := context.WithTimeout(ctx, 10*time.Second)
	defer cancel()
	r, err := http.NewRequestWithContext(ctx, http.MethodPost, base+"/signin", nil)
	if err != nil {
		return "", err
	}
	r.Header.Set("Authorization", "Bearer "+token)
	own := http.Client{Transport: &http.Transport{DisableKeepAlives: true, // and without a proxy: the request has a token
		DialContext: func(ctx context.Context, network, address string) (net.Conn, error) {
			conn, err := new(net.Dialer).DialContext(ctx, network, address)
			if err == nil && !still() {
				return nil, errors.Join(errors.New("the server has ended"), conn.Close())
			}
			return conn, err
		},
	}}
	answer, err := own.Do(r)
	if err != nil {
		return "", silent(base)
	}
	defer answer.Body.Close()
	var made struct {
		Code string `json:"code"`
	}
	body, err := io.ReadAll(io.LimitReader(answer.Body, 4<<10))
	if err == nil && answer.StatusCode == http.StatusCreated {
		err = json.NewDecoder(bytes.NewReader(body)).Decode(&made)
	}
	switch {
	case answer.StatusCode == http.StatusUnauthorized:
		return "", fmt.Errorf("page: %s does not accept the token of this data directory (%s)", base, c.Settings.DataDir)
	case err != nil || made.Code == "":
		return "", fmt.Errorf("page: %s answered with status %d", base, answer.StatusCode)
	}
	return base + httpserver.SignInPath(made.Code), nil
}

// direct uses no proxy.
var direct = http.Client{Transport: &http.Transport{DisableKeepAlives: true}}

func silent(base string) error {
	return fmt.Errorf("page: %s does not answer: is `linesman up` or `linesman responder` running there?", base)
}

// answers checks that a linesman serves HTTP at base.
func answers(ctx context.Context, base string) error {
	ctx, cancel := context.WithTimeout(ctx, 10*time.Second)
	defer cancel()
	r, err := http.NewRequestWithContext(ctx, http.MethodGet, base+"/healthz", nil)
	if err != nil {
		return err
	}
	answer, err := direct.Do(r)
	if err != nil {
		return silent(base)
	}
	defer answer.Body.Close()
	if answer.StatusCode != http.StatusOK {
		return fmt.Errorf("page: %s answered with status %d", base, answer.StatusCode)
	}
	return nil
}

// pageURL returns where the page of the data directory is served.
func (c Config) pageURL(ctx context.Context) (string, error) {
	address := c.Settings.HTTP
	if c.Settings.NATS != "" {
		if _, port, err := net.SplitHostPort(address); err != nil || port == "0" {
			return "", errors.New("http: must be the address of the responder, with its port")
		}
		return reachable("http://" + address), nil
	}
	b, err := c.Dialer.DialOrStart(ctx, embedded.OperatorUser)
	if err != nil {
		return "", err
	}
	b.Close()
	here, err := datadir.ReadInstance(c.Settings.DataDir)
	if err != nil && !errors.Is(err, os.ErrNotExist) {
		return "", err
	}
	if here.HTTP == "" {
		return "", errors.New("page: the running `linesman up` serves no HTTP: its setting `http` is empty")
	}
	return reachable(here.HTTP), nil
}

// reachable is an address that a browser on this machine can open: a server on all addresses
// of the machine is on loopback, too.
func reachable(base string) string {
	u, err := url.Parse(base)
	if err != nil {
		return base
	}
	host := u.Hostname()
	if ip := net.ParseIP(host); host != "" && (ip == nil || !ip.IsUnspecified()) {
		return base
	}
	u.Host = net.JoinHostPort("127.0.0.1", cmp.Or(u.Port(), "80"))
	return u.String()
}
