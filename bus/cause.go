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
func Cause(err error) string {
	const room = "there is no room: the disk of the server is full, or the storage that its account may use"
	const leader = "the stream has no leader now, as during an election of the cluster; try again in some seconds"
	var api *jetstream.APIError
	switch {
	case errors.Is(err, ErrUnreachable):
		return "" // it says so itself
	case errors.As(err, &api):
		switch api.ErrorCode {
		case codeAccountResources, codeNoPeers, codeResources, codeStorage:
			return room
		case codeUnavailable, codeNotLeader:
			return leader
		case codeStoreFailed:
			if strings.HasPrefix(api.Description, "maximum ") {
				return "a stream is full: " + api.Description
			}
			return room
		case jetstream.JSErrCodeStreamNotFound:
			return "a stream does not exist: a normalizer makes it"
		}
	case errors.Is(err, nats.ErrReconnectBufExceeded), errors.Is(err, nats.ErrConnectionClosed):
		return "there is no connection to NATS"
	case errors.Is(err, jetstream.ErrNoStreamResponse), errors.Is(err, nats.ErrNoResponders):
		return "no stream takes it now: it has no leader, as during an election of the cluster, or a normalizer has still to make it; try again in some seconds"
	case errors.Is(err, context.DeadlineExceeded), errors.Is(err, nats.ErrTimeout):
		return "no answer in time: " + leader
	}
	return ""
}

// noRoom reports that a stream cannot be made for want of storage.
func noRoom(err error) bool {
	var api *jetstream.APIError
	if !errors.As(err, &api) {
		return false
	}
	switch api.ErrorCode {
	case codeAccountResources, codeNoPeers, codeResources, codeStorage:
		return true
	}
	return false
}

// why says in few words what keeps something from being stored or read.
func why(err error) string {
	text := err.Error()
	var api *jetstream.APIError
	switch {
	case errors.Is(err, nats.ErrReconnectBufExceeded): // the buffer is none: see dial
		return "there is no connection"
	case errors.As(err, &api):
		text = strings.Replace(text, api.Error(), api.Description, 1)
	}
	if errors.Is(err, context.DeadlineExceeded) || errors.Is(err, nats.ErrTimeout) || errors.Is(err, jetstream.ErrNoStreamResponse) ||
		api != nil && (api.ErrorCode == codeUnavailable || api.ErrorCode == codeNotLeader) {
		text += "; it may have no leader now, as during an election, and is tried again"
	}
	return text
}
