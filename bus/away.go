package bus

import (
	"errors"

	"github.com/linesman/linesman/bus/reader"
)

// IsAway reports whether an error means that the server, or its streams, gave
// no answer: that the same may succeed once they are back.
func IsAway(err error) bool { return errors.Is(err, ErrUnreachable) || reader.IsAway(err) }
