package setup

import (
	"fmt"
	"io"
	"path/filepath"

	"github.com/linesman/linesman/responder/webhook"
)

// createdKey is the key for webhooks that was created.
type createdKey struct {
	File string `json:"file"`
	ID   string `json:"kid"` // in the JWKS
}

// WebhookKey creates the key that signs notifications of webhooks. An existing file is kept, and is an error.
func WebhookKey(path string) (createdKey, error) {
	path, err := filepath.Abs(path)
	if err != nil {
		return createdKey{}, err
	}
	key, err := webhook.CreateKey(path)
	if err != nil {
		return createdKey{}, fmt.Errorf("key for webhooks: %w", err)
	}
	return createdKey{path, key.ID()}, nil
}

// Print prints the settings for it.
func (k createdKey) Print(w io.Writer) error {
	const settings = `# key %s
[adcp]
webhook_key = %q
brand_json_url = "https://example.com/.well-known/brand.json"
`
	_, err := fmt.Fprintf(w, settings, k.ID, k.File)
	return err
}
