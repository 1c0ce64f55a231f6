package security

import (
	"bytes"
	"crypto/ecdsa"
	"crypto/elliptic"
	"crypto/rand"
	"crypto/tls"
	"crypto/x509"
	"crypto/x509/pkix"
	"encoding/json"
	"encoding/pem"
	"fmt"
	"io/fs"
	"math/big"
	"net"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"sync"
	"syscall"
	"testing"
	"time"

	"github.com/nats-io/nats.go"
	"go.uber.org/zap"

	"github.com/linesman/linesman/bus"
	"github.com/linesman/linesman/bus/embedded"
	"github.com/linesman/linesman/test/fixture"
	"github.com/linesman/linesman/test/fixture/bustest"
)

// bin is where the programs are, and the guard knows what runs as ours.
var bin string

// build makes the programs, linesman and a nats-server, once.
var build = sync.OnceValue(func() error {
	return fixture.Build(bin, "./cmd/linesman",
		"github.com/nats-io/nats-server/v2")
})

func program(t *testing.T, name string) string {
	t.Helper()
	if err := build(); err != nil {
		t.Fatal(err)
	}
	return filepath.Join(bin, name)
}

// linesman runs the program to its end.
func linesman(t *testing.T, args ...string) string {
	t.Helper()
	cmd := exec.Command(program(t, "linesman"), args...)
	cmd.Env = []string{"HOME=" + t.TempDir(), "PATH=" + os.Getenv("PATH")}
	out, said, code := fixture.Run(t, cmd)
	if code != 0 {
		t.Fatalf("linesman %s: exit %d\n%s", args, code, said)
	}
	return out
}

// authority signs certificates.
type authority struct {
	dir  string
	cert *x509.Certificate
	key  *ecdsa.PrivateKey
}

func newAuthority(t *testing.T) *authority {
	a := &authority{dir: t.TempDir()}
	a.cert, a.key = a.sign(t, "ca", &x509.Certificate{
		Subject: pkix.Name{CommonName: "test"}, IsCA: true, BasicConstraintsValid: true, KeyUsage: x509.KeyUsageCertSign,
	})
	a.sign(t, "server", &x509.Certificate{
		Subject: pkix.Name{CommonName: "server"}, IPAddresses: []net.IP{net.IPv4(127, 0, 0, 1)},
		ExtKeyUsage: []x509.ExtKeyUsage{x509.ExtKeyUsageServerAuth},
	})
	return a
}

// client makes a certificate whose subject is CN= and a name.
func (a *authority) client(t *testing.T, name string) {
	a.sign(t, name, &x509.Certificate{Subject: pkix.Name{CommonName: name}, ExtKeyUsage: []x509.ExtKeyUsage{
		x509.ExtKeyUsageClientAuth}})
}

func (a *authority) sign(t *testing.T, name string, c *x509.Certificate) (*x509.Certificate, *ecdsa.PrivateKey) {
	t.Helper()
	key, err := ecdsa.GenerateKey(elliptic.P256(), rand.Reader)
	if err != nil {
		t.Fatal(err)
	}
	serial, err := rand.Int(rand.Reader, big.NewInt(1<<62))
	if err != nil {
		t.Fatal(err)
	}
	c.SerialNumber, c.NotBefore, c.NotAfter = serial, time.Now().Add(-time.Hour), time.Now().Add(time.Hour)
	issuer, issuerKey := a.cert, a.key
	if issuer == nil {
		issuer, issuerKey = c, key
	}
	der, err := x509.CreateCertificate(rand.Reader, c, issuer, &key.PublicKey, issuerKey)
	if err != nil {
		t.Fatal(err)
	}
	secret, err := x509.MarshalECPrivateKey(key)
	if err != nil {
		t.Fatal(err)
	}
	for file, block := range map[string]*pem.Block{name + ".pem": {Type: "CERTIFICATE", Bytes: der},
		name + "-key.pem": {Type: "EC PRIVATE KEY", Bytes: secret}} {
		if err := os.WriteFile(filepath.Join(a.dir, file), pem.EncodeToMemory(block), 0o600); err != nil {
			t.Fatal(err)
		}
	}
	cert, err := x509.ParseCertificate(der)
	if err != nil {
		t.Fatal(err)
	}
	return cert, key
}

// own is a server of somebody's own, a process, with the configuration that
// linesman prints for it.
type ownServer struct {
	url   string
	store string // where it has its accounts, and their streams
	keys  string // a directory with what every user shows
	ca    *authority
}

// startOwn starts one. How is what users show: "", --nkey or --jwt.
func startOwn(t *testing.T, how string) *ownServer {
	t.Helper()
	s := &ownServer{ca: newAuthority(t)}
	s.keys = s.ca.dir
	args := []string{"context", "--server-config"}
	if how != "" {
		s.keys = filepath.Join(t.TempDir(), "keys")
		args = append(args, how, "--keys", s.keys)
	} else {
		for _, u := range users {
			s.ca.client(t, u)
		}
	}
	accounts := linesman(t, args...)
	if how != "" {
		s.copyTo(t, s.keys, "ca.pem")
	}
	dir := t.TempDir()
	s.store = filepath.Join(dir, "js", "jetstream")
	config := fmt.Sprintf("listen: 127.0.0.1:-1\nports_file_dir: %q\n"+
		"jetstream { store_dir: %q, max_file_store: 1TB }\ninclude accounts.conf\n", // not a part of the free space
		dir, filepath.Join(dir, "js"))
	server := fmt.Sprintf("cert_file: %q\n  key_file: %q", filepath.Join(s.ca.dir, "server.pem"),
		filepath.Join(s.ca.dir, "server-key.pem"))
	if how == "" {
		accounts = strings.NewReplacer(`cert_file: "server.pem"`, fmt.Sprintf("cert_file: %q",
			filepath.Join(s.ca.dir, "server.pem")),
			`key_file: "server-key.pem"`, fmt.Sprintf("key_file: %q", filepath.Join(s.ca.dir, "server-key.pem")),
			`ca_file: "ca.pem"`, fmt.Sprintf("ca_file: %q", filepath.Join(s.ca.dir, "ca.pem"))).Replace(accounts)
	} else {
		config += "tls {\n  " + server + "\n}\n"
	}
	for name, body := range map[string]string{"server.conf": config, "accounts.conf": accounts} {
		if err := os.WriteFile(filepath.Join(dir, name), []byte(body), 0o600); err != nil {
			t.Fatal(err)
		}
	}
	var log bytes.Buffer
	cmd := exec.Command(program(t, "nats-server"), "-c", filepath.Join(dir, "server.conf"))
	cmd.Stdout, cmd.Stderr = &log, &log
	if err := cmd.Start(); err != nil {
		t.Fatal(err)
	}
	ended := make(chan struct{})
	go func() { defer close(ended); _ = cmd.Wait() }()
	t.Cleanup(func() {
		_ = cmd.Process.Signal(syscall.SIGTERM)
		<-ended
		if t.Failed() {
			b := log.Bytes()
			t.Logf("the last that nats-server said:\n%s", b[max(len(b)-4<<10, 0):])
		}
	})
	soon(t, "the server's port", func() bool {
		select {
		case <-ended:
			t.Fatalf("nats-server ended:\n%s", log.Bytes())
		default:
		}
		var ports struct{ Nats []string }
		found, _ := filepath.Glob(filepath.Join(dir, "*.ports"))
		if len(found) == 0 {
			return false
		}
		b, err := os.ReadFile(found[0])
		if err != nil || json.Unmarshal(b, &ports) != nil || len(ports.Nats) == 0 {
			return false
		}
		_, port, err := net.SplitHostPort(strings.TrimPrefix(strings.TrimPrefix(ports.Nats[0], "nats://"), "tls://"))
		s.url = "tls://127.0.0.1:" + port
		return err == nil
	})
	return s
}

func (s *ownServer) copyTo(t *testing.T, dir string, names ...string) {
	t.Helper()
	for _, name := range names {
		from := s.keys
		if name == "ca.pem" {
			from = s.ca.dir
		}
		b, err := os.ReadFile(filepath.Join(from, name))
		if err != nil {
			t.Fatal(err)
		}
		if err := os.WriteFile(filepath.Join(dir, name), b, 0o600); err != nil {
			t.Fatal(err)
		}
	}
}

// only is a directory with what some users show, and no others.
func (s *ownServer) only(t *testing.T, some ...string) string {
	t.Helper()
	dir := t.TempDir()
	s.copyTo(t, dir, "ca.pem")
	for _, user := range some {
		found := false
		for _, ending := range []string{".creds", ".nk", ".pem", "-key.pem"} {
			if _, err := os.Stat(filepath.Join(s.keys, user+ending)); err == nil {
				s.copyTo(t, dir, user+ending)
				found = true
			}
		}
		if !found {
			t.Fatalf("%s has no keys", user)
		}
	}
	return dir
}

func (s *ownServer) options(t *testing.T, how, user string) []nats.Option {
	t.Helper()
	file := func(ending string) string { return filepath.Join(s.keys, user+ending) }
	opts := []nats.Option{nats.RootCAs(filepath.Join(s.ca.dir, "ca.pem"))}
	switch how {
	case "--nkey":
		seed, err := nats.NkeyOptionFromSeed(file(".nk"))
		if err != nil {
			t.Fatal(err)
		}
		return append(opts, seed)
	case "--jwt":
		return append(opts, nats.UserCredentials(file(".creds")))
	}
	return append(opts, nats.ClientCert(file(".pem"), file("-key.pem")))
}

var identities = map[string]string{"certificates": "", "nkeys": "--nkey", "jwt": "--jwt"}

func TestOwnServerKeepsTheSamePage(t *testing.T) {
	t.Parallel()
	for name, how := range identities {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			s := startOwn(t, how)
			p := &place{own: true, url: s.url, store: s.store,
				options: func(user string) []nats.Option { return s.options(t, how, user) }}
			login := func(user string) bus.Login {
				return bus.Login{URL: s.url, Options: append(s.options(t, how, user),
					nats.CustomInboxPrefix(bus.InboxPrefix(user)))}
			}
			operator, err := bus.Connect(bustest.Patient(t), login(embedded.OperatorUser),
				login(embedded.OperatorUser+"_public"),
				names, zap.NewNop())
			if err != nil {
				t.Fatal(err)
			}
			t.Cleanup(operator.Close)
			p.furnish(t, operator)
			if how == "--nkey" { // but for what users show it is the same text as with certificates
				p.subjects(t)
				p.detours(t)
				return
			}
			everyCell(t, p)
		})
	}
}

func TestOwnServerLetsInNobodyElse(t *testing.T) {
	t.Parallel()
	for name, how := range identities {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			s := startOwn(t, how)
			ca := nats.RootCAs(filepath.Join(s.ca.dir, "ca.pem"))
			stranger := newAuthority(t)
			stranger.client(t, embedded.OperatorUser)
			s.ca.client(t, "nobody")
			cert := func(dir, name string) nats.Option {
				return nats.ClientCert(filepath.Join(dir, name+".pem"), filepath.Join(dir, name+"-key.pem"))
			}
			for what, opts := range map[string][]nats.Option{
				"without anything":              {ca},
				"with a password":               {ca, nats.UserInfo(embedded.OperatorUser, "guess")},
				"with another's certificate":    {ca, cert(stranger.dir, embedded.OperatorUser)},
				"with a certificate of no user": {ca, cert(s.ca.dir, "nobody")},
			} {
				if nc, err := nats.Connect(s.url, append(opts, nats.NoReconnect())...); err == nil {
					nc.Close()
					t.Errorf("%s: somebody came in", what)
				}
			}
			raw, err := net.Dial("tcp", strings.TrimPrefix(s.url, "tls://"))
			if err != nil {
				t.Fatal(err)
			}
			defer raw.Close()
			if err := raw.SetDeadline(time.Now().Add(patience)); err != nil {
				t.Fatal(err)
			}
			old := tls.Client(raw, &tls.Config{MaxVersion: tls.VersionTLS11, InsecureSkipVerify: true})
			if err := old.Handshake(); err == nil {
				t.Error("TLS 1.1 is spoken")
			}
		})
	}
}

func TestKeysAreMadeOnceAndPrivate(t *testing.T) {
	t.Parallel()
	for _, how := range []string{"--nkey", "--jwt"} {
		dir := filepath.Join(t.TempDir(), "keys")
		first := linesman(t, "context", "--server-config", how, "--keys", dir)
		sizes := map[string]string{}
		err := filepath.WalkDir(dir, func(path string, d fs.DirEntry, err error) error {
			if err != nil {
				return err
			}
			info, err := d.Info()
			want := fs.FileMode(0o600)
			if d.IsDir() {
				want = 0o700
			} else if b, _ := os.ReadFile(path); strings.HasSuffix(path, ".nk") {
				sizes[path] = string(b)
				if strings.Contains(first, strings.TrimSpace(string(b))) {
					t.Errorf("%s is in what was printed", filepath.Base(path))
				}
			}
			if err == nil && info.Mode().Perm() != want {
				t.Errorf("%s: mode %v, want %v", filepath.Base(path), info.Mode().Perm(), want)
			}
			return err
		})
		if err != nil {
			t.Fatal(err)
		}
		again := linesman(t, "context", "--server-config", how, "--keys", dir)
		if how == "--nkey" && again != first {
			t.Error("other keys the second time")
		}
		for path, body := range sizes {
			if b, err := os.ReadFile(path); err != nil || string(b) != body {
				t.Errorf("%s was made again: %v", filepath.Base(path), err)
			}
		}
		if len(sizes) < 5 {
			t.Errorf("%s: only %d seeds", how, len(sizes))
		}
	}
}
