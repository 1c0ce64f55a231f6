package bus

import (
	"errors"

	"github.com/nats-io/nats.go/jetstream"

	"github.com/linesman/linesman/bus/reader"
)

// ErrNoStream reports that a stream does not exist: it was never made under this
// prefix, or it is being recreated.
var ErrNoStream = jetstream.ErrStreamNotFound

// IsAway reports whether an error means that the server or its streams did not answer,
// so that a retry may succeed.
func IsAway(err error) bool { return errors.Is(err, ErrUnreachable) || reader.IsAway(err) }
