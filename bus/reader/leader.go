package reader

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"time"

	"github.com/nats-io/nats.go"
	"github.com/nats-io/nats.go/jetstream"
)

// AnswerTimeout bounds one request. One that is on its way when the connection
// breaks gets no answer at all, and the connection is soon there again.
const AnswerTimeout = 5 * time.Second

// Heartbeat is how often a consumer says that it lives. It lives on one node of
// a cluster: where that dies another consumer is made after twice as long.
const Heartbeat = 2 * time.Second

// heardWithin is how long ago a leader may have heard of a follower: these choose
// another one when they heard nothing for four seconds.
const heardWithin = 3 * time.Second

// errUnfollowed reports an answer of a leader that may not be the leader any more.
var errUnfollowed = errors.New("its leader has not heard of its followers for some seconds")

// Look gets a stream, within [AnswerTimeout]. Where its leader is gone nobody answers, and the request
// must be made again once there is another one.
func Look(ctx context.Context, js jetstream.JetStream, stream string) (s jetstream.Stream, err error) {
	err = retryLost(ctx, js.Conn(), func(ctx context.Context) error {
		s, err = js.Stream(ctx, stream)
		return err
	})
	return s, err
}

// retryLost bounds one request by AnswerTimeout, and repeats it if the connection
// was lost and restored meanwhile: the answer was lost with it. The request must
// be one that may be repeated.
func retryLost(ctx context.Context, nc *nats.Conn, send func(context.Context) error) error {
	for {
		before := nc.Stats().Reconnects
		attempt, cancel := context.WithTimeout(ctx, AnswerTimeout)
		err := send(attempt)
		cancel()
		if err == nil || ctx.Err() != nil || !IsAway(err) || nc.Stats().Reconnects == before {
			return err
		}
	}
}

// Followed tells whether to believe that a stream ends where its leader says.
// One that was cut off, or stopped for a while, takes itself for the leader
// until it learns better, and knows nothing of what was stored meanwhile. The
// followers choose another one when they heard nothing for four seconds, so a
// majority that was heard within three is enough. A stream with one copy has no other.
func Followed(info *jetstream.StreamInfo) error {
	if !Replicated(info) {
		return nil
	}
	if heard := 1 + heardOf(info); 2*heard <= len(info.Cluster.Replicas)+1 {
		return fmt.Errorf("stream %s: %w", info.Config.Name, errUnfollowed)
	}
	return nil
}

// heardOf is how many followers a leader has just heard of.
func heardOf(info *jetstream.StreamInfo) (n int) {
	for _, r := range info.Cluster.Replicas {
		if !r.Offline && r.Active > 0 && r.Active < heardWithin { // 0: never
			n++
		}
	}
	return n
}

// heardOfAll reports whether a leader has just heard of all followers: then no
// other server can believe that it is the leader.
func heardOfAll(info *jetstream.StreamInfo) bool {
	return !Replicated(info) || heardOf(info) == len(info.Cluster.Replicas)
}

// Replicated reports whether a stream has more copies than one.
func Replicated(info *jetstream.StreamInfo) bool {
	return info.Cluster != nil && len(info.Cluster.Replicas) > 0
}

// Holds reports whether a stream has a message of a subject from one sequence
// on, up to another where that is not 0, as its leader says.
func Holds(ctx context.Context, nc *nats.Conn, stream, subject string, from, last uint64) (bool, error) {
	if last != 0 && from > last {
		return false, nil
	}
	seq, _, err := AskLeader(ctx, nc, stream, fmt.Appendf(nil, `{"seq":%d,"next_by_subj":%q}`, from, subject))
	if errors.Is(err, jetstream.ErrMsgNotFound) {
		return false, nil
	}
	if err != nil {
		return false, fmt.Errorf("read %s from %d: %w", stream, from, err)
	}
	return last == 0 || seq <= last, nil
}

// AskLeader gets the sequence and the headers of one message from a stream's
// leader, also where the stream has allow_direct: a replica may not have yet
// what is new. The error is [jetstream.ErrMsgNotFound] where there is none.
func AskLeader(ctx context.Context, nc *nats.Conn, stream string, ask []byte) (uint64, nats.Header, error) {
	var m *nats.Msg
	err := retryLost(ctx, nc, func(ctx context.Context) (err error) {
		m, err = nc.RequestWithContext(ctx, jetstream.DefaultAPIPrefix+"STREAM.MSG.GET."+stream, ask)
		return err
	})
	if err != nil {
		return 0, nil, err
	}
	var answer struct {
		Error   *jetstream.APIError `json:"error"`
		Message struct {
			Seq    uint64 `json:"seq"`
			Header []byte `json:"hdrs"`
		} `json:"message"`
	}
	if err := json.Unmarshal(m.Data, &answer); err != nil {
		return 0, nil, errors.New("the answer is not of the known form")
	}
	switch {
	case answer.Error != nil && answer.Error.ErrorCode == jetstream.JSErrCodeMessageNotFound:
		return 0, nil, jetstream.ErrMsgNotFound
	case answer.Error != nil:
		return 0, nil, answer.Error
	case len(answer.Message.Header) == 0:
		return answer.Message.Seq, nil, nil
	}
	h, err := nats.DecodeHeadersMsg(answer.Message.Header)
	if err != nil {
		return 0, nil, errors.New("its headers are not of the known form")
	}
	return answer.Message.Seq, h, nil
}
