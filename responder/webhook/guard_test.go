package webhook

import (
	"context"
	"encoding/binary"
	"errors"
	"net"
	"net/http"
	"net/http/httptest"
	"net/netip"
	"strings"
	"sync/atomic"
	"testing"
	"time"
)

func TestAddressesThatAreCalled(t *testing.T) {
	for _, tt := range []struct {
		ip            string
		public, local bool // allowed
	}{
		{"8.8.8.8", true, true}, {"1.1.1.1", true, true}, {"172.15.255.255", true, true}, {"172.32.0.0", true, true},
		{"100.63.255.255", true, true}, {"100.128.0.0", true, true}, {"198.17.255.255", true, true},
		{"198.20.0.0", true, true},
		{"2606:4700:4700::1111", true, true}, {"2a00:1450:4001::1", true, true},

		{"127.0.0.1", false, true}, {"127.255.255.254", false, true}, {"10.0.0.1", false, true},
		{"10.255.255.255", false, true},
		{"172.16.0.1", false, true}, {"172.31.255.255", false, true}, {"192.168.1.1", false, true},
		{"100.64.0.1", false, true},
		{"100.127.255.255", false, true}, {"192.0.0.1", false, true}, {"192.0.2.1", false, true}, {"198.18.0.1", false, true},
		{"198.19.255.255", false, true}, {"198.51.100.1", false, true}, {"203.0.113.1", false, true},
		{"192.88.99.1", false, true},
		{"::1", false, true}, {"fc00::1", false, true}, {"fdff::1", false, true}, {"2001:db8::1", false, true},
		{"2001::1", false, true},
		{"2001:10::1", false, true}, {"2002:7f00:1::", false, true}, {"2002:808:808::", false, true},
		{"3fff::1", false, true},
		{"4000::1", false, true}, {"100::1", false, true}, {"64:ff9b:1::a00:1", false, true}, {"::7f00:1", false, true},

		{"0.0.0.0", false, false}, {"0.1.2.3", false, false}, {"169.254.169.254", false, false},
		{"169.254.0.1", false, false},
		{"224.0.0.1", false, false}, {"239.255.255.255", false, false}, {"240.0.0.1", false, false},
		{"255.255.255.255", false, false},
		{"100.100.100.200", false, false}, {"168.63.129.16", false, false}, {"192.0.0.192", false, false},
		{"::", false, false}, {"fe80::1", false, false}, {"fe80::1%eth0", false, false}, {"ff02::1", false, false},
		{"fd00:ec2::254", false, false}, {"fd20:ce::254", false, false},

		{"::ffff:8.8.8.8", true, true}, {"::ffff:127.0.0.1", false, true}, {"::ffff:10.0.0.1", false, true},
		{"::ffff:169.254.169.254", false, false}, {"::ffff:0.0.0.0", false, false},
		{"64:ff9b::8.8.8.8", true, true}, {"64:ff9b::127.0.0.1", false, true}, {"64:ff9b::10.1.1.1", false, true},
		{"64:ff9b::169.254.169.254", false, false}, {"64:ff9b::100.64.0.1", false, true},
		{"64:ff9b:1::169.254.169.254", false, false}, {"64:ff9b:1:2:3::100.100.100.200", false, false},
		{"2002:a9fe:a9fe::1", false, false},
	} {
		ip := netip.MustParseAddr(tt.ip)
		if got := allowed(ip, false); got != tt.public {
			t.Errorf("%s: allowed %v, want %v", tt.ip, got, tt.public)
		}
		if got := allowed(ip, true); got != tt.local {
			t.Errorf("%s, with private ones: allowed %v, want %v", tt.ip, got, tt.local)
		}
	}
	if allowed(netip.Addr{}, true) {
		t.Error("no address at all is allowed")
	}
}

func TestURLsThatAreAccepted(t *testing.T) {
	long := "https://h.example/" + strings.Repeat("x", maxURL)
	for _, tt := range []struct {
		url           string
		public, local bool
	}{
		{"https://hooks.example.com/a?b=c%20d", true, true}, {"https://hooks.example.com:9443/", true, true},
		{"https://8.8.8.8/x", true, true},
		{"https://[2606:4700::1111]:443/", true, true}, {"https://h.example.", true, true}, {"https://xn--bcher-kva.example/",
			true, true},
		{"http://hooks.example.com/", false, true}, {"https://127.0.0.1/", false, true}, {"http://127.0.0.1:80/", false,
			true},
		{"https://localhost/", false, true}, {"https://a.localhost./", false, true}, {"https://[::1]/", false, true},
		{"https://10.0.0.1:8443/", false, true}, {"https://[::ffff:10.0.0.1]/", false, true},
		{"https://metadata.google.internal/", false, true},
		{"https://169.254.169.254/latest", false, false}, {"https://0.0.0.0/", false, false}, {"https://[fe80::1%25eth0]/",
			false, false},
		{"", false, false}, {"https://", false, false}, {"https:///path", false, false}, {"ftp://h.example/", false, false},
		{"file:///etc/passwd", false, false}, {"//h.example/", false, false}, {"h.example/", false, false},
		{"https:h.example", false, false},
		{"https://user@h.example/", false, false}, {"https://user:pw@h.example/", false, false},
		{"https://@h.example/", false, false},
		{"https://h.example/#x", false, false}, {"https://h.example:0/", false, false}, {"https://h.example:/", false, false},
		{"https://h.example:65536/", false, false}, {"https://h.example:x/", false, false}, {"https://127.1/", false, false},
		{"https://2130706433/", false, false}, {"https://0x7f000001/", false, false}, {"https://0177.0.0.1/", false, false},
		{"https://h.example/a b", false, false}, {"https://h.example/\n", false, false}, {"https://bücher.example/", false,
			false},
		{"https://h..example/", false, false}, {"https://-h.example/", false, false}, {"https://*.example/", false, false},
		{"https://h.example\\@127.0.0.1/", false, false}, {"gopher://h.example/", false, false}, {long, false, false},
	} {
		if problem := checkURL(tt.url, false); (problem == "") != tt.public {
			t.Errorf("%.60s: %q, want it taken: %v", tt.url, problem, tt.public)
		}
		if problem := checkURL(tt.url, true); (problem == "") != tt.local {
			t.Errorf("%.60s, with private ones: %q, want it taken: %v", tt.url, problem, tt.local)
		}
	}
}

func TestPrivateReceiverIsNeverCalled(t *testing.T) {
	t.Parallel()
	var called atomic.Int32
	s := httptest.NewServer(http.HandlerFunc(func(http.ResponseWriter, *http.Request) { called.Add(1) }))
	defer s.Close()
	_, port, _ := net.SplitHostPort(s.Listener.Addr().String())
	c := newSender(false)
	for _, url := range []string{s.URL, "http://localhost:" + port, "http://[::ffff:127.0.0.1]:" + port,
		"http://0.0.0.0:" + port} {
		if status, got := c.send(t.Context(), Registration{URL: url}, "text/plain", []byte("x")); status != 0 ||
			got.Why != errForbidden.Error() {
			t.Errorf("%s: %+v", url, got)
		}
	}
	if n := called.Load(); n != 0 {
		t.Errorf("it was called %d times", n)
	}
	if got, _ := newSender(true).send(t.Context(), Registration{URL: s.URL}, "text/plain", nil); got != 200 ||
		called.Load() != 1 {
		t.Errorf("with the switch: %d, called %d times", got, called.Load())
	}
}

// nameServer answers each address query with the next answer of a list, and
// then with the last one.
func nameServer(t *testing.T, answers ...string) (address string, asked *atomic.Int32) {
	t.Helper()
	conn, err := net.ListenPacket("udp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	asked = &atomic.Int32{}
	ended := make(chan struct{})
	go func() {
		defer close(ended)
		b := make([]byte, 1500)
		for {
			n, from, err := conn.ReadFrom(b)
			if err != nil {
				return
			}
			q := b[:n]
			at := 12 // the name
			for q[at] != 0 {
				at += int(q[at]) + 1
			}
			question := q[12 : at+5]
			kind := binary.BigEndian.Uint16(q[at+1:])
			reply := append([]byte{q[0], q[1], 0x81, 0x80, 0, 1, 0, 0, 0, 0, 0, 0}, question...)
			if kind == 1 {
				i := min(int(asked.Add(1)), len(answers)) - 1
				ip := netip.MustParseAddr(answers[i]).As4()
				reply[7] = 1
				reply = append(append(reply, 0xc0, 12, 0, 1, 0, 1, 0, 0, 0, 0, 0, 4), ip[:]...)
			}
			_, _ = conn.WriteTo(reply, from)
		}
	}()
	t.Cleanup(func() { _ = conn.Close(); <-ended })
	return conn.LocalAddr().String(), asked
}

// A name that resolves differently from one query to the next is no way in: the
// address of the connection is checked.
func TestANameThatMovesToThisMachineGetsNowhere(t *testing.T) {
	t.Parallel()
	var called atomic.Int32
	s := httptest.NewServer(http.HandlerFunc(func(http.ResponseWriter, *http.Request) { called.Add(1) }))
	defer s.Close()
	_, port, _ := net.SplitHostPort(s.Listener.Addr().String())
	dns, asked := nameServer(t, "192.0.2.1", "127.0.0.1")
	resolver := &net.Resolver{PreferGo: true, Dial: func(ctx context.Context, _, _ string) (net.Conn, error) {
		return (&net.Dialer{}).DialContext(ctx, "udp", dns)
	}}
	if got, err := resolver.LookupNetIP(t.Context(), "ip4", "rebind.example."); err != nil ||
		got[0].String() != "192.0.2.1" {
		t.Fatalf("the first answer: %v, %v", got, err)
	}
	dial := func(private bool) *sender {
		c := newSender(private)
		c.transport.DialContext = (&net.Dialer{Timeout: 5 * time.Second, Resolver: resolver,
			Control: checkDialed(private)}).DialContext
		return c
	}
	r := Registration{URL: "http://rebind.example.:" + port}
	if _, got := dial(false).send(t.Context(), r, "text/plain", nil); got == nil || got.Why != errForbidden.Error() ||
		asked.Load() < 2 || called.Load() != 0 {
		t.Errorf("%+v, asked %d times, called %d times", got, asked.Load(), called.Load())
	}
	if got, _ := dial(true).send(t.Context(), r, "text/plain", nil); got != 200 { // otherwise the test proves nothing
		t.Errorf("with the switch: %+v", got)
	}
}

func TestNoRedirectAndNoProxyIsFollowed(t *testing.T) {
	var called atomic.Int32
	inner := httptest.NewServer(http.HandlerFunc(func(http.ResponseWriter, *http.Request) { called.Add(1) }))
	defer inner.Close()
	outer := httptest.NewServer(http.RedirectHandler(inner.URL, http.StatusTemporaryRedirect))
	defer outer.Close()
	t.Setenv("HTTP_PROXY", inner.URL)
	t.Setenv("HTTPS_PROXY", inner.URL)
	status, got := newSender(true).send(t.Context(), Registration{URL: outer.URL}, "text/plain", []byte("x"))
	if status != http.StatusTemporaryRedirect || !got.Final || called.Load() != 0 {
		t.Errorf("%+v, called %d times", got, called.Load())
	}
	if p := newSender(false).transport.Proxy; p != nil {
		t.Error("it has a proxy")
	}
}

func TestAForeignCertificateIsNotTrusted(t *testing.T) {
	t.Parallel()
	s := httptest.NewTLSServer(http.HandlerFunc(func(http.ResponseWriter, *http.Request) {}))
	defer s.Close()
	c := newSender(true)
	if status, got := c.send(t.Context(), Registration{URL: s.URL}, "text/plain", nil); status != 0 ||
		got.Why != "its certificate is invalid" {
		t.Errorf("of nobody: %+v", got)
	}
	c.transport.TLSClientConfig.RootCAs = s.Client().Transport.(*http.Transport).TLSClientConfig.RootCAs
	if got, _ := c.send(t.Context(), Registration{URL: s.URL}, "text/plain", nil); got != 200 {
		t.Errorf("of one that is known: %+v", got)
	}
	_, port, _ := net.SplitHostPort(s.Listener.Addr().String())
	if _, got := c.send(t.Context(), Registration{URL: "https://localhost:" + port}, "text/plain",
		nil); got == nil || got.Why != "its certificate is invalid" {
		t.Errorf("for another name: %+v", got)
	}
}

func TestOnlyTCPIsDialed(t *testing.T) {
	for _, tt := range [][2]string{{"unix", "/run/x"}, {"udp4", "8.8.8.8:53"}, {"tcp4", "x"}} {
		if err := checkDialed(true)(tt[0], tt[1], nil); !errors.Is(err, errForbidden) {
			t.Errorf("%v: %v", tt, err)
		}
	}
}
