package bus

import (
	"errors"

	"github.com/nats-io/nats.go/jetstream"

	"github.com/linesman/linesman/bus/reader"
)

// ErrNoStream reports that a stream does not exist: nobody has made it under this
// prefix, or it is being recreated.
var ErrNoStream = jetstream.ErrStreamNotFound

// IsAway reports whether an error means that the server, or its streams, gave
// no answer: that the same may succeed once they are back.
func IsAway(err error) bool { return errors.Is(err, ErrUnreachable) || reader.IsAway(err) }
