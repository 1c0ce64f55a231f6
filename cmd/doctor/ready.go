package doctor

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"io"
	"net"
	"net/http"
	"net/url"
	"strings"
	"time"

	"github.com/linesman/linesman/cmd/console"
	"github.com/linesman/linesman/config"
	"github.com/linesman/linesman/daemon/datadir"
)

const (
	readyTime = 4 * time.Second // the image gives its check five seconds
	maxReason = 512             // bytes of an answer
)

// Ready asks a role whether it works, over HTTP and without any keys: the one at address, a
// URL or HOST:PORT, or else the one at the address of the settings, monitor_http or http. It
// returns the URL that it asked and what the role does. The error is [datadir.ErrSettings] if
// there is no address to ask.
func Ready(ctx context.Context, s config.Config, address string) (asked, role string, err error) {
	ctx, cancel := context.WithTimeout(ctx, readyTime)
	defer cancel()
	all, err := readyURLs(s, address)
	if err != nil {
		return "", "", errors.Join(err, datadir.ErrSettings)
	}
	var refused error
	for _, asked = range all {
		role, err = askReady(ctx, asked)
		if err == nil || errors.Is(err, errNotReady) {
			return asked, role, err
		}
		refused = errors.Join(refused, err)
	}
	return asked, "", refused
}

// IsUp reports whether the settings mean the `linesman up` of the data directory.
func IsUp(s config.Config) bool {
	_, err := datadir.ReadInstance(s.DataDir)
	return s.NATS == "" && err == nil
}

func readyURLs(s config.Config, address string) (all []string, err error) {
	if address != "" {
		if !strings.Contains(address, "://") {
			address = "http://" + address
		}
		u, err := url.Parse(address)
		if err != nil || u.Scheme != "http" && u.Scheme != "https" || u.Host == "" {
			return nil, fmt.Errorf("URL: must be http://HOST:PORT, got %q", address)
		}
		return []string{u.JoinPath("readyz").String()}, nil
	}
	for _, listen := range []string{s.MonitorHTTP, s.HTTP} {
		host, port, err := net.SplitHostPort(listen)
		if err != nil || port == "0" {
			continue
		}
		if ip := net.ParseIP(host); host == "" || ip.IsUnspecified() {
			host = "127.0.0.1"
			if ip != nil && ip.To4() == nil {
				host = "::1"
			}
		}
		all = append(all, "http://"+net.JoinHostPort(host, port)+"/readyz")
	}
	if all == nil {
		err = errors.New("URL: neither monitor_http nor http names a port")
	}
	return all, err
}

// errNotReady reports a role that answers, and does not work.
var errNotReady = errors.New("not ready")

func askReady(ctx context.Context, at string) (role string, err error) {
	client := http.Client{
		Transport:     &http.Transport{DisableKeepAlives: true}, // and no proxy
		CheckRedirect: func(*http.Request, []*http.Request) error { return http.ErrUseLastResponse },
	}
	r, err := http.NewRequestWithContext(ctx, http.MethodGet, at, nil)
	if err != nil {
		return "", err
	}
	answer, err := client.Do(r)
	if err != nil {
		var failed *url.Error
		if errors.As(err, &failed) {
			err = failed.Err
		}
		return "", fmt.Errorf("%s: %w", console.Safe(at), err)
	}
	defer answer.Body.Close()
	body, err := io.ReadAll(io.LimitReader(answer.Body, maxReason))
	text := console.Safe(strings.TrimSpace(string(body)))
	switch {
	case answer.StatusCode == http.StatusServiceUnavailable:
		return "", fmt.Errorf("%w: %s", errNotReady, text)
	case answer.StatusCode != http.StatusOK:
		return "", fmt.Errorf("%w: %s answers %d", errNotReady, console.Safe(at), answer.StatusCode)
	}
	return cmp.Or(text, "ok"), err
}
