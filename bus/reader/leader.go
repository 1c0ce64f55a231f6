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

// AnswerTimeout is the timeout of one request. A request that is pending when the
// connection breaks gets no answer, even if the connection is restored soon.
const AnswerTimeout = 5 * time.Second

// heardWithin is how recently a leader must have had contact with a follower to count
// it. Followers elect a new leader after four seconds without contact.
const heardWithin = 3 * time.Second

// errUnfollowed reports an answer from a server that may no longer be the leader.
var errUnfollowed = errors.New("its leader has had no contact with a majority for some seconds")

// Look looks up a stream, within [AnswerTimeout]. Without a leader nobody answers;
// retry after the election.
func Look(ctx context.Context, js jetstream.JetStream, stream string) (s jetstream.Stream, err error) {
	err = retryLost(ctx, js.Conn(), func(ctx context.Context) error {
		s, err = js.Stream(ctx, stream)
		return err
	})
	return s, err
}

// retryLost sends one request with AnswerTimeout, and repeats it if the connection was
// lost and restored meanwhile, since the answer was lost too. The request must be safe
// to repeat.
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

// Followed returns an error unless the leader's view of a stream's end can be trusted.
// A server that was partitioned or paused considers itself the leader until it learns
// otherwise, and does not know what was stored meanwhile. Followers elect a new leader
// after four seconds without contact, so contact with a majority within the last three
// is sufficient. An unreplicated stream has no other leader.
func Followed(info *jetstream.StreamInfo) error {
	if !replicated(info) {
		return nil
	}
	if heard := 1 + heardOf(info); 2*heard <= len(info.Cluster.Replicas)+1 {
		return fmt.Errorf("stream %s: %w", info.Config.Name, errUnfollowed)
	}
	return nil
}

// heardOf returns how many followers the leader had contact with recently.
func heardOf(info *jetstream.StreamInfo) (n int) {
	for _, r := range info.Cluster.Replicas {
		if !r.Offline && r.Active > 0 && r.Active < heardWithin { // 0: never
			n++
		}
	}
	return n
}

// heardOfAll reports whether a leader had recent contact with all followers: then no
// other server can consider itself the leader.
func heardOfAll(info *jetstream.StreamInfo) bool {
	return !replicated(info) || heardOf(info) == len(info.Cluster.Replicas)
}

// replicated reports whether a stream has more than one copy.
func replicated(info *jetstream.StreamInfo) bool {
	return info.Cluster != nil && len(info.Cluster.Replicas) > 0
}

// holds reports whether, according to its leader, a stream has a message of a subject
// between two sequences, inclusive; last 0: no upper limit.
func holds(ctx context.Context, nc *nats.Conn, stream, subject string, from, last uint64) (bool, error) {
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

// AskLeader gets the sequence and headers of one message from a stream's leader, even
// if the stream allows direct gets, since a replica may lag. The error is
// [jetstream.ErrMsgNotFound] if there is no such message.
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
		return 0, nil, errors.New("cannot decode the answer")
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
		return 0, nil, errors.New("cannot decode its headers")
	}
	return answer.Message.Seq, h, nil
}
