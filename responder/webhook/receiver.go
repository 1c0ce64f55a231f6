package webhook

import (
	"context"
	"errors"
	"fmt"
)

// Receiver posts bodies to one address, with the checks, the signature and the limits of
// all webhooks. It is for programs that are not a responder: they keep what is to be
// delivered, and try again.
type Receiver struct {
	to     Registration
	sender *sender
}

// NewReceiver returns a receiver. With a secret, bodies are signed with HMAC-SHA256.
// Private allows private networks, this machine, and http. The error says what is wrong
// with the address or the secret, and quotes neither.
func NewReceiver(url, secret string, private bool) (*Receiver, error) {
	r := Registration{URL: url}
	var errs []error
	if problem := checkURL(url, private); problem != "" {
		errs = append(errs, fmt.Errorf("the URL %s", problem))
	}
	if secret != "" {
		r.Scheme, r.Credentials = HMAC, secret
		if problem := checkSecret(secret); problem != "" {
			errs = append(errs, fmt.Errorf("the secret %s", problem))
		}
	}
	if err := errors.Join(errs...); err != nil {
		return nil, err
	}
	return &Receiver{to: r, sender: newSender(private)}, nil
}

// Post makes one attempt. The error is a [delivery.Refusal].
func (r *Receiver) Post(ctx context.Context, mediaType string, body []byte) error {
	if _, refused := r.sender.send(ctx, r.to, mediaType, body); refused != nil {
		return refused
	}
	return nil
}
