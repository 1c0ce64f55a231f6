package adcp

import (
	"encoding/json"
	"strings"
	"time"

	"github.com/linesman/linesman/internal/lazy"
	"github.com/linesman/linesman/responder"
	"github.com/linesman/linesman/responder/request"
)

// capabilities is the contract's get-adcp-capabilities-response. It lists no protocol, which the contract does not
// allow: all that it knows are of advertising, and each is a promise to implement its tasks.
type capabilities struct {
	AdCP struct {
		Majors      []int       `json:"major_versions"`
		Releases    []string    `json:"supported_versions"`
		Build       string      `json:"build_version"`
		Idempotency idempotency `json:"idempotency"`
	} `json:"adcp"`
	Protocols []string `json:"supported_protocols"`
	webhooks
	Ext extension `json:"ext"`
}

type idempotency struct {
	Supported bool  `json:"supported"`
	Seconds   int64 `json:"replay_ttl_seconds,omitempty"`
}

type extension struct {
	Agents map[string]offered `json:"agents"` // by kind
}

type offered struct {
	Skills       []string `json:"skills"`
	Capabilities []string `json:"capabilities"` // ids of the Universal Agent API
}

// The shortest and the longest time of the contract for which outcomes are kept.
const (
	minReplay = time.Hour
	maxReplay = 7 * 24 * time.Hour
)

// Capabilities returns what linesman offers to clients of AdCP. Skills are those for each kind of agent.
func Capabilities(s *responder.Service, skills map[string][]string) Response {
	var c capabilities
	c.AdCP.Majors, c.AdCP.Releases, c.AdCP.Build = []int{request.Major}, request.Releases, buildOf(s.Version())
	if ttl := s.KeyTTL(); minReplay <= ttl && ttl <= maxReplay {
		c.AdCP.Idempotency = idempotency{true, int64(ttl / time.Second)}
	}
	c.Protocols, c.webhooks, c.Ext.Agents = []string{}, webhooksOf(s), map[string]offered{}
	for _, a := range s.Agents() {
		c.Ext.Agents[a.Kind()] = offered{skills[a.Kind()], a.Capabilities()}
	}
	return Response{Status: completed, Body: encode(c)}
}

var semver = lazy.Regexp(`^\d+\.\d+\.\d+([-+].*)?$`)

// buildOf returns a version of linesman as a semantic version.
func buildOf(version string) string {
	if version = strings.TrimPrefix(version, "v"); semver().MatchString(version) {
		return version
	}
	return "0.0.0-dev"
}

// unserved are the details of a request in a release that is not served.
func unserved(s *responder.Service, a *request.Args) []byte {
	var d struct {
		Version  json.RawMessage `json:"adcp_version,omitempty"`
		Major    json.RawMessage `json:"adcp_major_version,omitempty"`
		Releases []string        `json:"supported_versions"`
		Majors   []int           `json:"supported_majors"`
		Build    string          `json:"build_version"`
	}
	d.Version, d.Major = a.Pinned()
	d.Releases, d.Majors, d.Build = request.Releases, []int{request.Major}, buildOf(s.Version())
	return encode(d)
}
