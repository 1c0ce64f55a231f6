package bus

import (
	"context"
	"errors"
	"strings"

	"github.com/nats-io/nats.go"
	"github.com/nats-io/nats.go/jetstream"
)

// Codes of the JetStream API.
const (
	codeAccountResources = 10002 // resource limits exceeded for account
	codeNoPeers          = 10005 // no suitable peers for placement
	codeUnavailable      = 10008 // no leader of the cluster
	codeNotLeader        = 10009
	codeResources        = 10023 // insufficient resources
	codeStorage          = 10047 // insufficient storage resources available
	codeStoreFailed      = 10077 // a stream could not store a message: its description says why
)

// Cause returns the reason why a stream operation failed, in words for a caller,
// or "" when the error does not contain one.
func Cause(err error) string { return cause(err, false) }

// Cause is [Cause] that knows the server: an election is named as a possible
// reason for a missing answer where the server belongs to a cluster.
func (b *Bus) Cause(err error) string { return cause(err, clustered(b.inside)) }

func cause(err error, cluster bool) string {
	const leader = "the stream has no leader now, as during an election of the cluster"
	const again = "; try again in some seconds"
	var api *jetstream.APIError
	switch {
	case errors.Is(err, ErrUnreachable):
		return "" // it says so itself
	case errors.As(err, &api):
		switch api.ErrorCode {
		case codeUnavailable, codeNotLeader:
			return leader + again
		case jetstream.JSErrCodeStreamNotFound:
			return "a stream does not exist: a normalizer makes it"
		}
		return shortage(api)
	case errors.Is(err, nats.ErrReconnectBufExceeded), errors.Is(err, nats.ErrConnectionClosed):
		return "there is no connection to NATS"
	case errors.Is(err, jetstream.ErrNoStreamResponse), errors.Is(err, nats.ErrNoResponders):
		if cluster {
			return "no stream takes it now: it has no leader, as during an election of the cluster, or a normalizer has still to make it" + again
		}
		return "no stream takes it now: a normalizer has still to make it" + again
	case isTimeout(err) && cluster:
		return "no answer in time: maybe the stream has no leader now, as during an election of the cluster" + again
	case isTimeout(err):
		return "no answer in time" + again
	}
	return ""
}

// clustered reports whether the server belongs to a cluster: the streams of
// others have no elections.
func clustered(nc *nats.Conn) bool { return nc.ConnectedClusterName() != "" }

func isTimeout(err error) bool {
	return errors.Is(err, context.DeadlineExceeded) || errors.Is(err, nats.ErrTimeout)
}

// shortage says in words that the server could not store something; "" for
// other errors.
func shortage(api *jetstream.APIError) string {
	switch {
	case full(api):
		return "there is no room: the disk of the server is full, or the storage that its account may use"
	case api.ErrorCode != codeStoreFailed:
		return ""
	case strings.HasPrefix(api.Description, "maximum "):
		return "a stream is full: " + api.Description
	}
	return "the server could not store it: " + api.Description
}

// full reports whether an operation failed for want of storage.
func full(api *jetstream.APIError) bool {
	switch api.ErrorCode {
	case codeAccountResources, codeNoPeers, codeResources, codeStorage:
		return true
	}
	return api.ErrorCode == codeStoreFailed && strings.Contains(api.Description, "no space left")
}

// noRoom reports that a stream cannot be made for want of storage.
func noRoom(err error) bool {
	var api *jetstream.APIError
	return errors.As(err, &api) && full(api)
}

// why says in few words what keeps something from being stored or read.
func why(nc *nats.Conn, err error) string {
	text := err.Error()
	var api *jetstream.APIError
	switch {
	case errors.Is(err, nats.ErrReconnectBufExceeded): // the buffer is none: see dial
		return "there is no connection"
	case errors.As(err, &api):
		plain := api.Description
		if short := shortage(api); short != "" && !strings.Contains(short, plain) && !strings.Contains(text, "there is no room") {
			plain = short + " (" + plain + ")"
		}
		text = strings.Replace(strings.Replace(text, "nats: "+api.Error(), plain, 1), api.Error(), plain, 1)
	case isTimeout(err):
		text = strings.NewReplacer(context.DeadlineExceeded.Error(), "no answer in time", nats.ErrTimeout.Error(), "no answer in time").Replace(text)
	}
	elects := api != nil && (api.ErrorCode == codeUnavailable || api.ErrorCode == codeNotLeader)
	if elects || clustered(nc) && (isTimeout(err) || errors.Is(err, jetstream.ErrNoStreamResponse)) {
		text += "; it may have no leader now, as during an election, and is tried again"
	}
	return text
}

func (b *Bus) why(err error) string { return why(b.inside, err) }

// plainError is an error in words for a person, without codes of the API.
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
	return &plainError{b.why(err), err}
}
