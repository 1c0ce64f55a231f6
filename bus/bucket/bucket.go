// Package bucket stores values under keys, in JetStream streams with the names and
// subjects of NATS key-value buckets.
//
//	Put, Delete ─▶ $KV.BUCKET.KEY ─▶ KV_BUCKET: the last message of each subject ─▶ Get, Watch
//
// Each value has a revision: the sequence of its message. A write can name the revision
// that it replaces, and is refused if the entry has another one: see [If] and [Moved].
// The stream's leader answers reads, so a read sees every write that was acknowledged
// before it, provided that the stream does not allow direct gets.
//
// The package creates no streams and does not interpret values.
package bucket

import (
	"context"
	"errors"
	"fmt"
	"strings"
	"sync/atomic"
	"time"

	"github.com/nats-io/nats.go"
	"github.com/nats-io/nats.go/jetstream"
	"go.uber.org/zap"

	"github.com/linesman/linesman/bus/reader"
)

// operation is the header that marks a deleted key.
const operation = "KV-Operation"

// Stream returns the name of the stream that holds a bucket.
func Stream(bucket string) string { return "KV_" + bucket }

// Subject returns the subject of a key.
func Subject(bucket, key string) string { return "$KV." + bucket + "." + key }

// Entry is the newest message of a key.
type Entry struct {
	Key      string
	Value    []byte
	Header   nats.Header
	Revision uint64    // 0: nothing is stored under the key
	At       time.Time // when it was stored, by the server's clock
	Deleted  bool      // the key was deleted; the revision is that of the deletion
}

// Exists reports whether the key has a value.
func (e Entry) Exists() bool { return e.Revision != 0 && !e.Deleted }

// Bucket reads and writes one bucket. It is safe for concurrent use.
type Bucket struct {
	js     jetstream.JetStream
	name   string
	stream atomic.Pointer[jetstream.Stream] // nil until a key was read
}

// New returns the bucket with a name. It sends no request.
func New(js jetstream.JetStream, name string) *Bucket { return &Bucket{js: js, name: name} }

// Get reads the entry of a key. A key without an entry is not an error.
func (b *Bucket) Get(ctx context.Context, key string) (Entry, error) {
	stream := b.stream.Load()
	if stream == nil {
		found, err := b.js.Stream(ctx, Stream(b.name))
		if err != nil {
			return Entry{}, fmt.Errorf("bucket %s: %w", b.name, err)
		}
		stream = &found
		b.stream.Store(stream)
	}
	m, err := (*stream).GetLastMsgForSubject(ctx, Subject(b.name, key))
	switch {
	case errors.Is(err, jetstream.ErrMsgNotFound):
		return Entry{Key: key}, nil
	case err != nil:
		return Entry{}, err
	}
	return Entry{key, m.Data, m.Header, m.Sequence, m.Time, deleted(m.Header)}, nil
}

func deleted(h nats.Header) bool { return h.Get(operation) != "" }

// If makes a write conditional: it succeeds only if the key's entry has this revision;
// 0: the key has no entry.
func If(revision uint64) jetstream.PublishOpt {
	return jetstream.WithExpectLastSequencePerSubject(revision)
}

// For makes a value expire after a time, rounded to seconds, at least one.
func For(ttl time.Duration) jetstream.PublishOpt {
	return jetstream.WithMsgTTL(max(ttl, time.Second).Round(time.Second))
}

// Once disables the retries of a write for which no stream answers.
func Once() jetstream.PublishOpt { return jetstream.WithRetryAttempts(0) }

// Moved reports whether a write was refused because the entry does not have the
// revision given to [If].
func Moved(err error) bool {
	var api *jetstream.APIError
	return errors.As(err, &api) && (api.ErrorCode == jetstream.JSErrCodeStreamWrongLastSequence ||
		api.ErrorCode == jetstream.JSErrCodeStreamWrongLastSequenceConstant) // used by replicated streams
}

// Put stores a value and returns its revision. After an error that is not a refusal the
// value may have been stored.
func (b *Bucket) Put(ctx context.Context, key string, value []byte, header nats.Header,
	options ...jetstream.PublishOpt) (uint64, error) {
	ack, err := b.js.PublishMsg(ctx, b.message(key, value, header), options...)
	if err != nil {
		return 0, err
	}
	return ack.Sequence, nil
}

// PutAsync is Put without waiting: the future receives the result.
func (b *Bucket) PutAsync(key string, value []byte, header nats.Header,
	options ...jetstream.PublishOpt) (jetstream.PubAckFuture, error) {
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

// Delete writes a delete marker and returns its revision.
func (b *Bucket) Delete(ctx context.Context, key string, options ...jetstream.PublishOpt) (uint64, error) {
	return b.Put(ctx, key, nil, nats.Header{operation: {"DEL"}}, options...)
}

// Watch calls each with the existing entries of keys, a subject filter such as ">", in
// the order in which they were stored, then with every change, until ctx ends; then it
// returns nil. HeadersOnly omits the values. Last is true if no newer entry is known. If
// the stream or the consumer is lost, Watch starts again from the beginning. At each
// start it calls begin, unless that is nil; replaced reports that the bucket was
// recreated, or lost its end, and empty that it has no entries.
func (b *Bucket) Watch(ctx context.Context, keys string, headersOnly bool, log *zap.Logger,
	each func(e Entry, last bool), begin func(replaced, empty bool)) error {
	if begin == nil {
		begin = func(bool, bool) {}
	}
	prefix := Subject(b.name, "")
	w := reader.Watch{JS: b.js, Stream: Stream(b.name), Subject: prefix + keys, HeadersOnly: headersOnly, Log: log}
	return w.Run(ctx, func(m jetstream.Msg, meta *jetstream.MsgMetadata) {
		key := strings.TrimPrefix(m.Subject(), prefix)
		each(Entry{key, m.Data(), m.Headers(), meta.Sequence.Stream, meta.Timestamp, deleted(m.Headers())},
			meta.NumPending == 0)
	}, begin)
}
