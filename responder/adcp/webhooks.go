package adcp

import (
	"net/url"
	"time"

	"github.com/linesman/linesman/responder"
	"github.com/linesman/linesman/responder/webhook"
)

// webhooks are the members of get_adcp_capabilities about the signatures of notifications.
type webhooks struct {
	Signing  webhookSigning `json:"webhook_signing"`
	Identity *identity      `json:"identity,omitempty"`
}

type webhookSigning struct {
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

// webhooksOf returns these members for the settings of a service.
func webhooksOf(s *responder.Service) webhooks {
	w := webhooks{Signing: webhookSigning{HMAC: true}}
	brand, giveUp := s.Signing()
	u, err := url.Parse(brand)
	if brand == "" || err != nil {
		return w
	}
	w.Signing = webhookSigning{true, webhook.SignatureProfile, []string{"ed25519"}, true, int64(giveUp / time.Second)}
	w.Identity = &identity{brand, map[string]string{"webhook_signing": u.Scheme + "://" + u.Host}}
	return w
}
