package bus

import (
	"errors"

	"github.com/nats-io/nats.go"
	"github.com/nats-io/nats.go/jetstream"

	"github.com/linesman/linesman/bus/reader"
)

// Cause returns a description for callers of why a stream operation failed, or "" if
// the error is of another kind.
func Cause(err error) string { return cause(err, false) }

// Cause is [Cause] that knows the server: if the server belongs to a cluster, a missing
// answer may be due to an election.
func (b *Bus) Cause(err error) string { return cause(err, reader.Clustered(b.inside)) }

func cause(err error, cluster bool) string {
	const leader = "the stream has no leader now, as during an election of the cluster"
	const again = "; try again in some seconds"
	var api *jetstream.APIError
	switch {
	case errors.Is(err, ErrUnreachable):
		return "" // its text describes it
	case errors.As(err, &api):
		switch {
		case reader.Leaderless(api):
			return leader + again
		case api.ErrorCode == jetstream.JSErrCodeStreamNotFound:
			return "a stream does not exist: a normalizer makes it"
		}
		return reader.Shortage(api)
	case errors.Is(err, nats.ErrReconnectBufExceeded), errors.Is(err, nats.ErrConnectionClosed):
		return "there is no connection to NATS"
	case errors.Is(err, jetstream.ErrNoStreamResponse), errors.Is(err, nats.ErrNoResponders):
		if cluster {
			return "no stream takes it now: it has no leader, as during an election of the cluster, " +
				"or a normalizer has still to make it" + again
		}
		return "no stream takes it now: a normalizer has still to make it" + again
	case reader.IsTimeout(err) && cluster:
		return "no answer in time: maybe the stream has no leader now, as during an election of the cluster" + again
	case reader.IsTimeout(err):
		return "no answer in time" + again
	}
	return ""
}

// noSpace reports whether a stream cannot be created for lack of storage.
func noSpace(err error) bool {
	var api *jetstream.APIError
	return errors.As(err, &api) && reader.Full(api)
}

// Explain describes briefly, for the log, why something cannot be stored or read.
func (b *Bus) Explain(err error) string { return reader.Explain(b.inside, err) }

// plainError is an error with a text for people, without API codes.
type plainError struct {
	text  string
	cause error
}

func (e *plainError) Error() string { return e.text }
func (e *plainError) Unwrap() error { return e.cause }

func (b *Bus) plainly(err error) error {
	if err == nil {
		return nil
	}
	return &plainError{b.Explain(err), err}
}

// ErrNoStream reports that a stream does not exist: it was never made under this
// prefix, or it is being recreated.
var ErrNoStream = jetstream.ErrStreamNotFound

// IsAway reports whether an error means that the server or its streams did not answer,
// so that a retry may succeed.
func IsAway(err error) bool { return errors.Is(err, ErrUnreachable) || reader.IsAway(err) }
