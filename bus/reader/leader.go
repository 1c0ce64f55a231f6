package reader

import (
	"context"
	"encoding/base64"
	"encoding/json"
	"errors"
	"fmt"
	"time"

	"github.com/nats-io/nats.go"
	"github.com/nats-io/nats.go/jetstream"
	"github.com/tidwall/gjson"
)

// AnswerTimeout is the timeout of one request. A request that is pending when the
// connection breaks gets no answer, even if the connection is restored soon.
const AnswerTimeout = 5 * time.Second

// heardWithin is how recently a leader must have had contact with a follower to count
// it. Followers elect a new leader after four seconds without contact.
const heardWithin = 3 * time.Second

// errUnfollowed reports an answer from a server that may no longer be the leader.
var errUnfollowed = errors.New("its leader has had no contact with a majority for some seconds")

// Look looks up a stream, within [AnswerTimeout]. Without a leader there is no answer:
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
	m, err := Next(ctx, nc, stream, subject, from)
	if errors.Is(err, jetstream.ErrMsgNotFound) {
		return false, nil
	}
	if err != nil {
		return false, fmt.Errorf("read %s from %d: %w", stream, from, err)
	}
	return last == 0 || m.Sequence <= last, nil
}

// AskLeader gets the sequence and headers of one message from a stream's leader, even
// if the stream allows direct gets, since a replica may lag. The error is
// [jetstream.ErrMsgNotFound] if there is no such message.
func AskLeader(ctx context.Context, nc *nats.Conn, stream string, ask []byte) (uint64, nats.Header, error) {
	m, err := getFromLeader(ctx, nc, stream, ask)
	if err != nil {
		return 0, nil, err
	}
	return m.Sequence, m.Header, nil
}

// Next gets the first message of a subject at or after a sequence from the stream's leader.
// The error is [jetstream.ErrMsgNotFound] if there is none.
func Next(ctx context.Context, nc *nats.Conn, stream, subject string, from uint64) (*jetstream.RawStreamMsg, error) {
	return getFromLeader(ctx, nc, stream, fmt.Appendf(nil, `{"seq":%d,"next_by_subj":%q}`, from, subject))
}

// getFromLeader sends a request for one message to the leader of a stream.
func getFromLeader(ctx context.Context, nc *nats.Conn, stream string, ask []byte) (*jetstream.RawStreamMsg, error) {
	var answer *nats.Msg
	err := retryLost(ctx, nc, func(ctx context.Context) (err error) {
		answer, err = nc.RequestWithContext(ctx, jetstream.DefaultAPIPrefix+"STREAM.MSG.GET."+stream, ask)
		return err
	})
	if err != nil {
		return nil, err
	}
	return decodeStored(answer.Data)
}

// decodeStored decodes the answer to a request for one message. Bodies are up to a MiB in
// base64: encoding/json needs several times as long for them.
func decodeStored(answer []byte) (*jetstream.RawStreamMsg, error) {
	message := gjson.GetBytes(answer, "message")
	if !message.IsObject() {
		var failed struct {
			Error *jetstream.APIError `json:"error"`
		}
		if err := json.Unmarshal(answer, &failed); err != nil || failed.Error == nil {
			return nil, errors.New("cannot decode the answer")
		}
		if failed.Error.ErrorCode == jetstream.JSErrCodeMessageNotFound {
			return nil, jetstream.ErrMsgNotFound
		}
		return nil, failed.Error
	}
	m := &jetstream.RawStreamMsg{}
	var header []byte
	var bad error
	message.ForEach(func(key, value gjson.Result) bool {
		switch key.Str {
		case "subject":
			m.Subject = value.Str
		case "seq":
			m.Sequence = value.Uint()
		case "hdrs":
			header, bad = base64.StdEncoding.DecodeString(value.Str)
		case "data":
			m.Data, bad = base64.StdEncoding.DecodeString(value.Str)
		case "time":
			m.Time, bad = time.Parse(time.RFC3339Nano, value.Str)
		}
		return bad == nil
	})
	if bad == nil && len(header) > 0 {
		m.Header, bad = nats.DecodeHeadersMsg(header)
	}
	if bad != nil || m.Sequence == 0 {
		return nil, errors.New("cannot decode the message")
	}
	return m, nil
}
