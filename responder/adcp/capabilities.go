package adcp

import (
	"net/url"
	"time"

	"github.com/linesman/linesman/responder/webhook"
)

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
