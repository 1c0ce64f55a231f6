// Package setup writes what a NATS cluster for linesman needs: the configuration of
// each server, the keys of each role, and the settings of each role.
//
//	DIR/servers/a.conf             of the server a; so for each server
//	DIR/servers/linesman.conf      accounts, users and permissions, of all servers
//	DIR/servers/linesman-tls.conf  if they have TLS: which files they have for it
//	DIR/worker/                    keys and settings of a worker; so for each role
//	DIR/keys/                      all keys, and in issuers/ those that sign them
//
// A machine gets the directory of its server or of its role, and nothing else.
package setup

import (
	"bytes"
	"cmp"
	"crypto/rand"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"net"
	"os"
	"path/filepath"
	"strconv"
	"strings"

	"github.com/linesman/linesman/bus"
	"github.com/linesman/linesman/bus/embedded"
	"github.com/linesman/linesman/internal/files"
	"github.com/linesman/linesman/internal/lazy"
)

// Ports of a server whose node names none. A node that names a port for its clients has
// its port for the other servers 2000 above it.
const (
	clientPort  = 4222
	clusterPort = 2000 // above the port for clients
	maxPort     = 65535 - clusterPort
)

// node is a server of the cluster.
type node struct {
	Name string // of the server and of its files: letters, digits, '-', '_' and '.'
	Host string // where clients and the other servers reach it
	Port int    // for clients
}

// ParseNodes reads a list of one or three nodes, separated by commas: each is
// NAME, NAME=HOST or NAME=HOST:PORT. Without a host the name is the host.
func ParseNodes(list string) ([]node, error) {
	var nodes []node
	for text := range strings.SplitSeq(list, ",") {
		n, err := parseNode(strings.TrimSpace(text))
		if err != nil {
			return nil, err
		}
		for _, other := range nodes {
			if other.Name == n.Name || other.Host == n.Host && (other.Port == n.Port || other.Port == n.Port+clusterPort ||
				n.Port == other.Port+clusterPort) {
				return nil, fmt.Errorf("nodes: %s and %s have the same name or address", other.Name, n.Name)
			}
		}
		nodes = append(nodes, n)
	}
	if len(nodes) != 1 && len(nodes) != 3 {
		return nil, fmt.Errorf("nodes: %d; linesman keeps one copy of its streams or three, so name one or three", len(nodes))
	}
	return nodes, nil
}

func parseNode(text string) (n node, err error) {
	name, host, found := strings.Cut(text, "=")
	if !found {
		host = name
	}
	if found && strings.Contains(host, ":") {
		port := ""
		if host, port, err = net.SplitHostPort(host); err != nil {
			return n, fmt.Errorf("nodes: %q: %w", text, err)
		}
		if n.Port, err = strconv.Atoi(port); err != nil || n.Port < 1 || n.Port > maxPort {
			return n, fmt.Errorf("nodes: %q: the port must be from 1 to %d", text, maxPort)
		}
	}
	n.Name, n.Host, n.Port = name, host, cmp.Or(n.Port, clientPort)
	taken := n.Name == "linesman" || n.Name+".conf" == tlsFile
	if !plain(n.Name) || taken || !plain(n.Host) && net.ParseIP(n.Host) == nil {
		return n, fmt.Errorf("nodes: %q must be NAME, NAME=HOST or NAME=HOST:PORT, with letters, digits, '-', '_' and '.', "+
			"and another name than linesman", text)
	}
	return n, nil
}

// plain reports whether a name can be that of a file and a host, and needs no quotes in
// a configuration.
func plain(name string) bool {
	return plainName().MatchString(name) && len(name) <= 64
}

var plainName = lazy.Regexp(`^[A-Za-z0-9_][A-Za-z0-9_.-]*$`)

// Config says which cluster is set up.
type Config struct {
	Dir    string // is created; with an existing one its keys are kept
	Nodes  []node // one, or three
	Store  string // directory of the streams on the servers; that of a node is below it
	TLS    string // directory of certificate, key and CA on the servers; "": as before
	Prefix string // of subjects and streams

	secure bool // all connections have TLS
}

// role is what one process of linesman gets.
type role struct {
	Name  string
	Users []string // whose keys it needs
}

// roles are all roles for which keys are made.
var roles = []role{
	{"normalizer", []string{"normalizer", "normalizer_public"}},
	{"responder", []string{"responder", "responder_public", "responder_agents"}},
	{"worker", []string{"worker"}},
	{"operator", []string{"operator", "operator_public"}},
	{"subscriber", []string{"subscriber"}},
	{"prompter", []string{"prompter"}},
}

// done is what was written, and how to go on: the commands that start the servers and the
// roles.
type done struct {
	Dir      string   `json:"dir"`  // absolute
	NATS     string   `json:"nats"` // URLs of the servers, separated by commas
	Commands []string `json:"commands"`
}

// Print prints the commands.
func (d done) Print(w io.Writer) error {
	_, err := fmt.Fprintf(w, "%s\n", strings.Join(d.Commands, "\n"))
	return err
}

// NATS writes the directory. It may be repeated, also after it was interrupted: keys,
// passwords and the files of TLS stay, everything else is written again.
func NATS(c Config) (done, error) {
	dir, err := filepath.Abs(c.Dir)
	if err != nil {
		return done{}, fmt.Errorf("directory: %w", err)
	}
	if c.secure, err = c.encrypt(filepath.Join(dir, "servers")); err != nil {
		return done{}, err
	}
	if err := c.write(dir); err != nil {
		return done{}, err
	}
	d := done{Dir: dir, NATS: c.urls()}
	for _, n := range c.Nodes {
		d.Commands = append(d.Commands, "nats-server -c "+quoted(filepath.Join(c.Dir, "servers", n.Name+".conf")))
	}
	for _, r := range roles[:3] {
		d.Commands = append(d.Commands, "linesman "+r.Name+" --config "+quoted(filepath.Join(c.Dir, r.Name, "linesman.toml")))
	}
	return d, nil
}

// quoted returns a path as a word of a shell, which is no flag.
func quoted(path string) string {
	if strings.HasPrefix(path, "-") {
		path = "./" + path
	}
	if plainPath().MatchString(path) {
		return path
	}
	return "'" + strings.ReplaceAll(path, "'", `'\''`) + "'"
}

var plainPath = lazy.Regexp(`^[A-Za-z0-9_./+@%][A-Za-z0-9_./+@%-]*$`)

func (c Config) write(dir string) error {
	keys, servers := filepath.Join(dir, "keys"), filepath.Join(dir, "servers")
	if err := os.MkdirAll(servers, 0o700); err != nil {
		return fmt.Errorf("directory: %w", err)
	}
	accounts, err := embedded.SignedConfig(embedded.Accounts(bus.Names{Prefix: c.Prefix}), keys)
	if err != nil {
		return err
	}
	password, err := password(filepath.Join(keys, "issuers", "cluster"))
	if err != nil {
		return err
	}
	write := func(text string, path ...string) {
		if err == nil {
			err = files.Replace(filepath.Join(path...), ".new-*", []byte(text))
		}
	}
	write("# The accounts, users and permissions of linesman, for all servers of the cluster.\n"+accounts,
		servers, "linesman.conf")
	for _, n := range c.Nodes {
		write(c.server(n, password), servers, n.Name+".conf")
	}
	for _, r := range roles {
		if err == nil {
			err = os.MkdirAll(filepath.Join(dir, r.Name), 0o700)
		}
		write(c.settings(r, filepath.Join(dir, r.Name)), dir, r.Name, "linesman.toml")
		for _, user := range r.Users {
			var key []byte
			if err == nil {
				key, err = os.ReadFile(filepath.Join(keys, user+".creds"))
			}
			write(string(key), dir, r.Name, user+".creds")
		}
	}
	return err
}

// tlsFile names certificate, key and CA, for clients and for the servers among themselves. It
// is written once, and may be edited; while it is there, all connections have TLS.
const tlsFile = "linesman-tls.conf"

// tlsBlock is in the configuration of each server with TLS, and in its block for the others.
const tlsBlock = "tls {\n  include " + tlsFile + "\n}\n"

var anyTLS = lazy.Regexp(`(?mi)^[^#"\n]*\btls\s*[:={]`)

// encrypt writes tlsFile if c.TLS is set, and reports whether it is there. Another block in files
// that are written again is an error.
func (c Config) encrypt(servers string) (secure bool, err error) {
	path, cert := filepath.Join(servers, tlsFile), confText(filepath.Join(c.TLS, "server.pem"))
	kept, missing := os.ReadFile(path)
	switch {
	case missing != nil && !errors.Is(missing, fs.ErrNotExist):
		return false, fmt.Errorf("tls: %w", missing)
	case missing == nil && c.TLS != "" && !strings.Contains(string(kept), cert):
		return false, fmt.Errorf("tls: %s does not name %s: edit it, or remove it to have it written again", path, cert)
	}
	secure = missing == nil || c.TLS != ""
	for _, n := range append([]node{{Name: "linesman"}}, c.Nodes...) {
		file := filepath.Join(servers, n.Name+".conf")
		text, err := os.ReadFile(file)
		if err != nil && !errors.Is(err, fs.ErrNotExist) {
			return false, fmt.Errorf("tls: %w", err)
		}
		if secure {
			text = bytes.ReplaceAll(text, []byte(tlsBlock), nil)
		}
		if anyTLS().Match(text) {
			return false, fmt.Errorf("tls: %s has a block tls, which would be lost: remove it there, and name its files with "+
				"--tls, or in %s", file, path)
		}
	}
	if missing == nil || !secure {
		return secure, nil
	}
	if err = os.MkdirAll(servers, 0o700); err == nil {
		err = files.Create(path, ".new-*", fmt.Appendf(nil, "# For clients, and for the servers among themselves. "+
			"This file may be edited.\ncert_file: %s\nkey_file: %s\nca_file: %s\n",
			cert, confText(filepath.Join(c.TLS, "server-key.pem")), confText(filepath.Join(c.TLS, "ca.pem"))))
	}
	if err != nil {
		return false, fmt.Errorf("tls: %w", err)
	}
	return true, nil
}

func (c Config) urls() string {
	scheme, all := "nats://", []string(nil)
	if c.secure {
		scheme = "tls://"
	}
	for _, n := range c.Nodes {
		all = append(all, scheme+net.JoinHostPort(n.Host, strconv.Itoa(n.Port)))
	}
	return strings.Join(all, ",")
}

// server returns the configuration of one node. It listens on all addresses of its
// machine, unless its host is a loopback one.
func (c Config) server(n node, password string) string {
	listen := ""
	if ip := net.ParseIP(n.Host); ip.IsLoopback() || n.Host == "localhost" {
		listen = n.Host
	}
	at := func(host string, port int) string {
		return net.JoinHostPort(cmp.Or(host, "0.0.0.0"), strconv.Itoa(port))
	}
	tls := ""
	if c.secure {
		tls = tlsBlock
	}
	text := fmt.Sprintf(`# The nats-server %s. Every client has keys. Where the network is not trusted use --tls.
server_name: %q
listen: %q
jetstream { store_dir: %s, max_file_store: 16GB }
max_pending: 16MB
max_payload: %d # of a task with a long prompt
%s`, n.Name, n.Name, at(listen, n.Port), confText(filepath.Join(c.Store, n.Name)), bus.MaxPayload, tls)
	if len(c.Nodes) > 1 {
		var routes []string
		for _, other := range c.Nodes {
			routes = append(routes, fmt.Sprintf("%q", "nats://linesman:"+password+"@"+at(other.Host, other.Port+clusterPort)))
		}
		text += fmt.Sprintf("cluster {\n  name: linesman\n  listen: %q\n  authorization { user: linesman, password: %q }\n"+
			"  ping_interval: \"5s\" # requests that a server that hangs should pass on are lost until it is noticed\n"+
			"  routes: [%s]\n%s}\n", at(listen, n.Port+clusterPort), password, strings.Join(routes, ", "), tls)
	}
	return text + "include linesman.conf\n"
}

// confText returns a text for the configuration of a nats-server, which knows few escapes.
func confText(s string) string {
	return `"` + strings.NewReplacer(`\`, `\\`, `"`, `\"`, "\n", `\n`, "\r", `\r`).Replace(s) + `"`
}

// settings returns the settings of a role whose directory is dir.
func (c Config) settings(r role, dir string) string {
	text := fmt.Sprintf("# Settings of a %s; $LINESMAN_CONFIG or --config names this file.\nnats = %q\ncreds = %q\n",
		r.Name, c.urls(), dir)
	if len(r.Users) == 1 && r.Name != "worker" && !c.secure { // with TLS also ca.pem is read in the directory
		text = strings.Replace(text, "creds = "+strconv.Quote(dir), "creds = "+strconv.Quote(
			filepath.Join(dir, r.Name+".creds")), 1)
	}
	if c.Prefix != "linesman" {
		text += fmt.Sprintf("prefix = %q\n", c.Prefix)
	}
	if len(c.Nodes) > 1 {
		text += "replicas = 3\n"
	}
	return text
}

// password returns the password of the servers among themselves, which is made once.
func password(path string) (string, error) {
	made := files.Create(path, ".new-*", []byte(rand.Text()+"\n"))
	if made != nil && !errors.Is(made, fs.ErrExist) {
		return "", fmt.Errorf("password of the cluster: %w", made)
	}
	read, err := os.ReadFile(path)
	if err != nil {
		return "", fmt.Errorf("password of the cluster: %w", err)
	}
	text := strings.TrimSpace(string(read))
	if len(text) < 16 || !plain(text) {
		return "", fmt.Errorf("password of the cluster: %s is damaged; remove it", path)
	}
	return text, nil
}
