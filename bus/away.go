package bus

import (
	"errors"

	"github.com/linesman/linesman/bus/reader"
)

// IsAway reports whether an error means that the server or its streams did not answer,
// so that a retry may succeed.
func IsAway(err error) bool { return errors.Is(err, ErrUnreachable) || reader.IsAway(err) }
