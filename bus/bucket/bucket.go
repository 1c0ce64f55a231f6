// Package bucket keeps values under keys, in JetStream streams that have the
// names and the subjects of NATS key-value buckets.
//
//	Put, Delete ─▶ $KV.BUCKET.KEY ─▶ KV_BUCKET: the last message of each subject ─▶ Get, Watch
//
// Every value has a revision, the sequence of its message. A write that names the
// revision that it replaces is refused if somebody else wrote meanwhile: see [If]
// and [Moved]. Reads are answered by the stream's leader, so they are never older
// than a write that was acknowledged before, as long as the stream does not permit
// direct gets.
//
// The package makes no streams, and knows nothing of what the values mean.
package bucket

import (
	"context"
	"errors"
	"fmt"
	"strings"
	"time"

	"github.com/nats-io/nats.go"
	"github.com/nats-io/nats.go/jetstream"
	"go.uber.org/zap"

	"github.com/linesman/linesman/bus/reader"
)

// operation is the header that marks a deleted key.
const operation = "KV-Operation"

// Stream is the name of the stream that holds a bucket.
func Stream(bucket string) string { return "KV_" + bucket }

// Subject is the subject under which a bucket has a key.
func Subject(bucket, key string) string { return "$KV." + bucket + "." + key }

// Entry is what a bucket has under a key.
type Entry struct {
	Key      string
	Value    []byte
	Header   nats.Header
	Revision uint64    // 0: there is nothing under the key
	At       time.Time // when it was stored, by the server's clock
	Deleted  bool      // the key was deleted; the revision is that of the deletion
}

// Exists reports whether there is a value.
func (e Entry) Exists() bool { return e.Revision != 0 && !e.Deleted }

// Bucket is one bucket.
type Bucket struct {
	js     jetstream.JetStream
	name   string
	stream jetstream.Stream // once it was opened
}

// New is the bucket of a name. It sends no request.
func New(js jetstream.JetStream, name string) *Bucket { return &Bucket{js: js, name: name} }

// Open looks for the bucket's stream, unless it was opened before.
func (b *Bucket) Open(ctx context.Context) error {
	if b.stream != nil {
		return nil
	}
	stream, err := b.js.Stream(ctx, Stream(b.name))
	if err != nil {
		return fmt.Errorf("bucket %s: %w", b.name, err)
	}
	b.stream = stream
	return nil
}

// Get reads what is stored under a key. A key that has nothing is no error. It
// opens the bucket if that was not done.
func (b *Bucket) Get(ctx context.Context, key string) (Entry, error) {
	if err := b.Open(ctx); err != nil {
		return Entry{}, err
	}
	m, err := b.stream.GetLastMsgForSubject(ctx, Subject(b.name, key))
	switch {
	case errors.Is(err, jetstream.ErrMsgNotFound):
		return Entry{Key: key}, nil
	case err != nil:
		return Entry{}, err
	}
	return Entry{key, m.Data, m.Header, m.Sequence, m.Time, deleted(m.Header)}, nil
}

func deleted(h nats.Header) bool { return h.Get(operation) != "" }

// If is the option of a write that replaces the entry of a revision, 0 being none.
func If(revision uint64) jetstream.PublishOpt {
	return jetstream.WithExpectLastSequencePerSubject(revision)
}

// For is the option of a value that expires: after so long, in whole seconds and
// at least one.
func For(ttl time.Duration) jetstream.PublishOpt {
	return jetstream.WithMsgTTL(max(ttl, time.Second).Round(time.Second))
}

// Once is the option of a write that is not repeated where no stream takes it.
func Once() jetstream.PublishOpt { return jetstream.WithRetryAttempts(0) }

// Moved reports whether a write was refused since the entry has another revision
// than [If] says.
func Moved(err error) bool {
	var api *jetstream.APIError
	return errors.As(err, &api) && (api.ErrorCode == jetstream.JSErrCodeStreamWrongLastSequence ||
		api.ErrorCode == jetstream.JSErrCodeStreamWrongLastSequenceConstant) // that of replicated streams
}

// Put stores a value, and returns its revision. Without an answer nobody knows
// what was stored.
func (b *Bucket) Put(
	ctx context.Context,
	key string,
	value []byte,
	header nats.Header,
	options ...jetstream.PublishOpt,
) (uint64, error) {
	ack, err := b.js.PublishMsg(ctx, b.message(key, value, header), options...)
	if err != nil {
		return 0, err
	}
	return ack.Sequence, nil
}

// PutAsync is Put that does not wait: the answer comes to the future.
func (b *Bucket) PutAsync(
	key string,
	value []byte,
	header nats.Header,
	options ...jetstream.PublishOpt,
) (jetstream.PubAckFuture, error) {
	return b.js.PublishMsgAsync(b.message(key, value, header), options...)
}

func (b *Bucket) message(key string, value []byte, header nats.Header) *nats.Msg {
	m := nats.NewMsg(Subject(b.name, key))
	m.Data = value
	for name, values := range header {
		m.Header[name] = values
	}
	return m
}

// Delete marks a key as deleted, and returns the revision of that.
func (b *Bucket) Delete(ctx context.Context, key string, options ...jetstream.PublishOpt) (uint64, error) {
	return b.Put(ctx, key, nil, nats.Header{operation: {"DEL"}}, options...)
}

// Watch says what to follow in a bucket.
type Watch struct {
	Keys        string // a subject filter on keys, as ">"
	HeadersOnly bool   // entries come without their values
	Log         *zap.Logger
}

// Watch calls each with the entries that there are, in the order in which they
// were stored, and then with what changes, until ctx ends; then it returns nil.
// Last says that no more are known. Where the stream or the consumer was lost it
// begins again. At each beginning it calls begin, unless that is nil: with whether
// the bucket was made anew, or lost its end, and whether it is empty.
func (b *Bucket) Watch(
	ctx context.Context,
	w Watch,
	each func(e Entry, last bool),
	begin func(anew, empty bool),
) error {
	if begin == nil {
		begin = func(bool, bool) {}
	}
	prefix := Subject(b.name, "")
	follow := reader.Watch{
		JS:          b.js,
		Stream:      Stream(b.name),
		Subject:     prefix + w.Keys,
		HeadersOnly: w.HeadersOnly,
		Log:         w.Log,
	}
	return follow.Run(ctx, func(m jetstream.Msg, meta *jetstream.MsgMetadata) {
		key := strings.TrimPrefix(m.Subject(), prefix)
		each(
			Entry{key, m.Data(), m.Headers(), meta.Sequence.Stream, meta.Timestamp, deleted(m.Headers())},
			meta.NumPending == 0,
		)
	}, begin)
}
