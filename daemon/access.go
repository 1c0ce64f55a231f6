package daemon

import (
	"context"
	"fmt"
	"net/url"
	"os"
	"time"

	"github.com/linesman/linesman/bus"
	"github.com/linesman/linesman/bus/embedded"
	"github.com/linesman/linesman/daemon/datadir"
	"github.com/linesman/linesman/responder/httpserver"
)

// tokens are the additional tokens of callers over HTTP: those in the file of a data directory,
// or, with a NATS server of one's own, those of all its responders.
type tokens struct {
	file string   // "": those of the bus
	bus  *bus.Bus // of the operator
}

// OpenTokens returns the tokens that the settings name. Close releases them.
func OpenTokens(ctx context.Context, c Config) (*tokens, error) {
	if c.Settings.NATS == "" {
		return &tokens{file: datadir.TokensFile(c.Settings.DataDir)}, nil
	}
	b, err := c.Dialer.Dial(ctx, embedded.OperatorUser)
	if err != nil {
		return nil, err
	}
	return &tokens{bus: b}, nil
}

// Close ends the connection, if there is one.
func (t *tokens) Close() {
	if t.bus != nil {
		t.bus.Close()
	}
}

// Create creates a token, and returns it. It fails if the name is in use.
func (t *tokens) Create(ctx context.Context, name string, scopes httpserver.Scopes) (token string, err error) {
	if t.bus == nil {
		return httpserver.CreateToken(t.file, name, scopes, time.Now())
	}
	err = t.try(ctx, func(ctx context.Context, store *bus.Values) error {
		token, err = httpserver.CreateSharedToken(ctx, store, name, scopes, time.Now())
		return err
	})
	return token, err
}

// Remove revokes the token of a name. It fails if there is none.
func (t *tokens) Remove(ctx context.Context, name string) error {
	if t.bus == nil {
		return httpserver.RemoveToken(t.file, name)
	}
	return t.try(ctx, func(ctx context.Context, store *bus.Values) error {
		return httpserver.RemoveSharedToken(ctx, store, name)
	})
}

// List returns the tokens in order of creation.
func (t *tokens) List(ctx context.Context) (all []httpserver.Named, err error) {
	if t.bus == nil {
		return httpserver.ListTokens(t.file)
	}
	err = t.try(ctx, func(ctx context.Context, store *bus.Values) error {
		all, err = httpserver.ListSharedTokens(ctx, store)
		return err
	})
	return all, err
}

func (t *tokens) try(ctx context.Context, do func(context.Context, *bus.Values) error) error {
	return withAccess(ctx, t.bus, do)
}

// withAccess uses the store of the responders for at most ten seconds.
func withAccess(ctx context.Context, b *bus.Bus, do func(context.Context, *bus.Values) error) error {
	ctx, cancel := context.WithTimeout(ctx, 10*time.Second)
	defer cancel()
	err := do(ctx, b.AccessStore())
	if err != nil {
		if hint := datadir.Hint(err); hint != "" {
			err = fmt.Errorf("%w: %s", err, hint)
		}
	}
	return err
}

// sharedLink is [SignInLink] at a responder of a NATS server of one's own, at base. The operator
// stores the code, which counts at each responder. Where only a token file is, as beside a
// responder, its owner asks the one that listens on that port.
func (c Config) sharedLink(ctx context.Context, base string) (string, error) {
	if err := answers(ctx, base); err != nil {
		return "", err
	}
	b, err := c.Dialer.Dial(ctx, embedded.OperatorUser)
	if err != nil {
		if _, missing := os.Stat(tokenFile(c.Settings)); missing != nil {
			return "", err
		}
		u, _ := url.Parse(base) // it was called
		address, absent := httpserver.ServedAt(c.Settings.DataDir, u.Port())
		if absent != nil {
			return "", fmt.Errorf("page: %w; as the operator: %s", absent, err.Error())
		}
		return c.askedLink(ctx, reachable("http://"+address), func() bool {
			now, err := httpserver.ServedAt(c.Settings.DataDir, u.Port())
			return err == nil && now == address
		})
	}
	defer b.Close()
	var path string
	err = withAccess(ctx, b, func(ctx context.Context, store *bus.Values) (err error) {
		path, err = httpserver.SharedSignInPath(ctx, store)
		return err
	})
	return base + path, err
}
