package adcp

import (
	"testing"
	"time"

	"github.com/linesman/linesman/responder"
	"github.com/linesman/linesman/runs"
)

func TestCapabilitiesOfWebhooksFollowTheKey(t *testing.T) {
	for brand, want := range map[string]string{
		"": `{"webhook_signing":{"supported":false,"legacy_hmac_fallback":true}}`,
		"https://brand.example:8443/a/brand.json?x=1": `{"webhook_signing":{"supported":true,"profile":"adcp/webhook-signing/v1",` +
			`"algorithms":["ed25519"],"legacy_hmac_fallback":true,"delivery_retry_horizon_seconds":86400},` +
			`"identity":{"brand_json_url":"https://brand.example:8443/a/brand.json?x=1",` +
			`"key_origins":{"webhook_signing":"https://brand.example:8443"}}}`,
	} {
		s := responder.New(responder.Config{BrandJSON: brand, GiveUp: 24 * time.Hour})
		if got := string(runs.Encode(webhooksOf(s))); got != want {
			t.Errorf("%q: %s", brand, got)
		}
	}
}
