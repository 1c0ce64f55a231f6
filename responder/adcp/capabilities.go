package adcp

import (
	"encoding/json"
	"net/url"
	"regexp"
	"strings"
	"time"

	"github.com/linesman/linesman/responder"
	"github.com/linesman/linesman/responder/request"
	"github.com/linesman/linesman/responder/webhook"
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
	Webhooks
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
	c.Protocols, c.Webhooks, c.Ext.Agents = []string{}, WebhooksOf(s.Signing()), map[string]offered{}
	for _, a := range s.Agents() {
		c.Ext.Agents[a.Kind()] = offered{skills[a.Kind()], a.Capabilities()}
	}
	return Response{Status: Completed, Body: encode(c)}
}

var semver = regexp.MustCompile(`^\d+\.\d+\.\d+([-+].*)?$`)

// buildOf returns a version of linesman as a semantic version.
func buildOf(version string) string {
	if version = strings.TrimPrefix(version, "v"); semver.MatchString(version) {
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

// Webhooks are the members of get_adcp_capabilities about the signatures of notifications.
type Webhooks struct {
	Signing  signing   `json:"webhook_signing"`
	Identity *identity `json:"identity,omitempty"`
}

type signing struct {
	Supported  bool     `json:"supported"`
	Profile    string   `json:"profile,omitempty"`
	Algorithms []string `json:"algorithms,omitempty"`
	HMAC       bool     `json:"legacy_hmac_fallback"`
	Retries    int64    `json:"delivery_retry_horizon_seconds,omitempty"`
}

type identity struct {
	BrandJSON string            `json:"brand_json_url"`
	Origins   map[string]string `json:"key_origins"` // of the JWKS, by the purpose of keys
}

// WebhooksOf returns these members. BrandJSON is the URL of the operator's brand.json, which is configured together
// with the key; "": there is no key. GiveUp is how long delivery is retried.
func WebhooksOf(brandJSON string, giveUp time.Duration) Webhooks {
	w := Webhooks{Signing: signing{HMAC: true}}
	u, err := url.Parse(brandJSON)
	if brandJSON == "" || err != nil {
		return w
	}
	w.Signing = signing{true, webhook.SignatureProfile, []string{"ed25519"}, true, int64(giveUp / time.Second)}
	w.Identity = &identity{brandJSON, map[string]string{"webhook_signing": u.Scheme + "://" + u.Host}}
	return w
}
