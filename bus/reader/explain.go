package reader

import (
	"context"
	"errors"
	"net/http"
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

// IsAway reports whether an error means that the server or its streams did not answer,
// so that a retry may succeed.
func IsAway(err error) bool {
	var api *jetstream.APIError
	if errors.As(err, &api) {
		return api.Code >= http.StatusInternalServerError
	}
	for _, away := range []error{
		context.DeadlineExceeded, nats.ErrTimeout, nats.ErrNoResponders, nats.ErrConnectionReconnecting,
		nats.ErrReconnectBufExceeded, nats.ErrDisconnected, nats.ErrStaleConnection,
	} {
		if errors.Is(err, away) {
			return true
		}
	}
	return false
}

// IsTimeout reports whether an error means that no answer came in time.
func IsTimeout(err error) bool {
	return errors.Is(err, context.DeadlineExceeded) || errors.Is(err, nats.ErrTimeout)
}

// Clustered reports whether the server belongs to a cluster; only clusters hold
// elections.
func Clustered(nc *nats.Conn) bool { return nc.ConnectedClusterName() != "" }

// Leaderless reports whether an operation failed because there is currently no leader.
func Leaderless(api *jetstream.APIError) bool {
	return api.ErrorCode == codeUnavailable || api.ErrorCode == codeNotLeader
}

// Shortage describes why the server could not store something; "" for other errors.
func Shortage(api *jetstream.APIError) string {
	switch {
	case Full(api):
		return "there is no room: the disk of the server is full, or the storage that its account may use"
	case api.ErrorCode != codeStoreFailed:
		return ""
	case strings.HasPrefix(api.Description, "maximum "):
		return "a stream is full: " + api.Description
	}
	return "the server could not store it: " + api.Description
}

// Full reports whether an operation failed for lack of storage.
func Full(api *jetstream.APIError) bool {
	switch api.ErrorCode {
	case codeAccountResources, codeNoPeers, codeResources, codeStorage:
		return true
	}
	return api.ErrorCode == codeStoreFailed && strings.Contains(api.Description, "no space left")
}

// Explain describes an error of storing or reading briefly, for the log.
func Explain(nc *nats.Conn, err error) string {
	text := err.Error()
	var api *jetstream.APIError
	switch {
	case errors.Is(err, nats.ErrReconnectBufExceeded): // the connections have no buffer
		return "there is no connection"
	case errors.As(err, &api):
		description := api.Description
		short := Shortage(api)
		if short != "" && !strings.Contains(short, description) && !strings.Contains(text, "there is no room") {
			description = short + " (" + description + ")"
		}
		text = strings.Replace(strings.Replace(text, "nats: "+api.Error(), description, 1), api.Error(), description, 1)
	case IsTimeout(err):
		const noAnswer = "no answer in time"
		text = strings.NewReplacer(context.DeadlineExceeded.Error(), noAnswer, nats.ErrTimeout.Error(),
			noAnswer).Replace(text)
	}
	if api != nil && Leaderless(api) ||
		Clustered(nc) && (IsTimeout(err) || errors.Is(err, jetstream.ErrNoStreamResponse)) {
		text += "; it may have no leader now, as during an election, and is tried again"
	}
	return text
}
