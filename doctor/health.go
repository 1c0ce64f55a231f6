package doctor

import (
	"context"

	"github.com/linesman/linesman/bus/embedded"
	"github.com/linesman/linesman/local"
)

// Health checks that the server accepts and stores data, and that a normalizer
// keeps up. It uses the keys of any user, and returns which user that is and what
// the keys do not permit to check. The error is the reason why it is not healthy.
func Health(ctx context.Context, d *local.Dialer) (user string, unchecked []string, err error) {
	ctx, cancel := soon(ctx)
	defer cancel()
	user = d.AnyUser()
	b, err := d.Dial(ctx, user)
	if err != nil {
		return user, nil, err
	}
	defer b.Close()
	unchecked, err = b.HealthAs(ctx, embedded.Permitted(b.Names, user))
	return user, unchecked, err
}
