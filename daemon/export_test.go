package daemon

import "context"

// Names for tests.
var (
	ErrAgents     = errAgents
	ErrUndetected = errUndetected
)

// ListenError is for tests, too.
type ListenError = listenError

// OfRun is for tests, too.
func (s *Session) OfRun(ctx context.Context, session string) (bool, error) {
	return s.ofRun(ctx, session)
}

// AskedLink is for tests, too.
func (c Config) AskedLink(ctx context.Context, base string, still func() bool) (string, error) {
	return c.askedLink(ctx, base, still)
}
