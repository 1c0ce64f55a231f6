package bus

import (
	"os"
	"strings"

	"github.com/nats-io/jwt/v2"
)

// InboxOf returns the prefix of the inboxes that the user of a credentials file
// may subscribe to, or "" where the file says nothing of it.
func InboxOf(creds string) string {
	b, err := os.ReadFile(creds)
	if err != nil { // connecting tells
		return ""
	}
	token, err := jwt.ParseDecoratedJWT(b)
	if err != nil {
		return ""
	}
	claims, err := jwt.DecodeUserClaims(token)
	if err != nil {
		return ""
	}
	for _, subject := range claims.Sub.Allow {
		prefix, all := strings.CutSuffix(subject, ".>")
		if all && strings.HasPrefix(prefix, "_INBOX") && !strings.ContainsAny(prefix, "*>") {
			return prefix
		}
	}
	return ""
}
