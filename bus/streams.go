package bus

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"slices"
	"strconv"
	"strings"
	"time"

	"github.com/nats-io/nats.go/jetstream"

	"github.com/linesman/linesman/bus/bucket"
	"github.com/linesman/linesman/bus/reader"
)

// Format is the version of the records in RAW, EVENTS and RUNS. Streams with a newer
// version are refused.
const Format = 1

const metadataFormat = "linesman.format"

// Limits are the limits of the streams. A size of 0 keeps the size of an existing
// stream, and gives a new one a share of the disk: a quarter each for RAW and EVENTS, a
// twentieth for RUNS.
type Limits struct {
	RawAge, EventsAge, RunsAge       time.Duration
	RawBytes, EventsBytes, RunsBytes int64
	Replicas                         int
	Disk                             int64 // free bytes of the server's disk; 0: unknown
}

// Default sizes of new streams if the disk is unknown.
const (
	defaultRawBytes    = 4 << 30
	defaultEventsBytes = 8 << 30
	defaultRunsBytes   = 1 << 30
)

// maxQueued is the maximum number of queued submissions; the next one is refused.
const maxQueued = 10_000

// DefaultLimits returns the limits for a server whose disk is unknown.
func DefaultLimits() Limits {
	return Limits{
		RawAge: 72 * time.Hour, EventsAge: 30 * 24 * time.Hour, RunsAge: 30 * 24 * time.Hour,
		Replicas: 1,
	}
}

// Ensure creates missing streams, and applies limits to existing ones. It returns one
// sentence for each changed setting. With a login that may not create streams, all must
// exist.
func (b *Bus) Ensure(ctx context.Context, limits Limits) (changed []string, err error) {
	for _, w := range b.wanted(limits) {
		what, err := b.ensure(ctx, w.js, w.config, w.auto)
		if noSpace(err) {
			err = fmt.Errorf("there is no room for its %d MiB in %d copies, %s: "+
				"give JetStream more (max_file_store, or the limits of the account), or make it smaller: %w",
				w.config.MaxBytes>>20, w.config.Replicas, w.size, err)
		}
		if err != nil {
			return changed, fmt.Errorf("stream %s: %w", w.config.Name, err)
		}
		changed = append(changed, what...)
	}
	return changed, nil
}

type wanted struct {
	js     jetstream.JetStream
	config jetstream.StreamConfig
	auto   bool   // the size is a default: an existing stream keeps its own
	size   string // which setting determines the size
}

func (b *Bus) wanted(l Limits) []wanted {
	// Duplicates is how long a message with an id is stored once: no stream but the outbox has
	// such messages. A server that starts reads all messages of this time again.
	const duplicates = 100 * time.Millisecond // the minimum
	share := func(set, standard, share int64) int64 {
		switch {
		case set != 0:
			return set
		case l.Disk > 0:
			return max(l.Disk/share, 64<<20)
		}
		return standard
	}
	stream := func(name, description, subjects string, age time.Duration, bytes int64) wanted {
		c := jetstream.StreamConfig{
			Name: name, Description: description, Subjects: []string{subjects}, MaxAge: age, MaxBytes: bytes,
			Storage: jetstream.FileStorage, Replicas: max(l.Replicas, 1), Duplicates: duplicates,
			Metadata: map[string]string{metadataFormat: strconv.Itoa(Format)},
		}
		if age > 0 {
			c.Duplicates = min(age, duplicates)
		}
		return wanted{js: b.js, config: c, size: "a fixed size"}
	}
	// No bucket allows rollups: with them, a user that may write one key can remove all
	// others. Values of buckets without a maximum age may have their own.
	values := func(name, description, keys string, age time.Duration, bytes int64) wanted {
		w := stream(bucket.Stream(name), description, bucket.Subject(name, keys), age, bytes)
		w.config.MaxMsgsPerSubject, w.config.DenyDelete = 1, true
		if w.config.Discard = jetstream.DiscardOld; age == 0 {
			w.config.Discard, w.config.AllowMsgTTL = jetstream.DiscardNew, true
		}
		return w
	}
	queue := func(name, description, subjects string, age time.Duration, bytes, messages int64) wanted {
		w := stream(name, description, subjects, age, bytes)
		w.config.Retention, w.config.Discard = jetstream.WorkQueuePolicy, jetstream.DiscardNew
		w.config.MaxMsgs, w.config.MaxMsgsPerSubject, w.config.DiscardNewPerSubject = messages, 1, true
		return w
	}
	outbox := queue(b.Outbox(), "notifications that wait for their receivers", b.PushSubjects(), noticeAge, maxNoticeBytes,
		maxNotices)
	outbox.config.Duplicates = 2 * time.Minute

	runs := values(b.Runs(), "one record a run", ">", l.RunsAge, share(l.RunsBytes, defaultRunsBytes, 20))
	runs.auto, runs.size = l.RunsBytes == 0, "as runs.max_bytes says"

	seen := values(b.Seen(), "ended runs that their owners have opened", "*", seenAge, maxSeenBytes)
	seen.config.MaxMsgs = maxSeen

	folds := values(b.Folds(), "where readers of the end of a raw log begin", ">", l.RawAge, maxFoldBytes)
	folds.config.Discard, folds.config.AllowMsgTTL = jetstream.DiscardOld, false

	raw := stream(b.Raw(), "what the agents wrote, as they wrote it", b.RawSubjects(), l.RawAge,
		share(l.RawBytes, defaultRawBytes, 4))
	raw.auto, raw.size = l.RawBytes == 0, "as raw.max_bytes says"
	raw.config.AllowBatchPublish = b.serverHas(2, 14)
	raw.config.Discard = jetstream.DiscardNew

	events := stream(b.Events(), "bounded events of the agents' runs", b.EventSubjects(), l.EventsAge,
		share(l.EventsBytes, defaultEventsBytes, 4))
	events.js, events.auto, events.size = b.jsPub, l.EventsBytes == 0, "as events.max_bytes says"
	events.config.AllowBatchPublish = b.serverHas(2, 14)
	events.config.RePublish = &jetstream.RePublish{Source: b.EventSubjects(), Destination: b.LiveSubjects()}
	events.config.ConsumerLimits.InactiveThreshold = ReaderAge
	// The others are read from their leader, since a replica may lag: a term that starts
	// from an outdated record, or reads an incomplete set of a long line's pieces again,
	// would report the missing part as a gap in the output.
	events.config.AllowDirect = true

	return []wanted{
		values(b.State(), "checkpoint, leases, and who is at work", ">", 0, 16<<20),
		queue(b.Work(), "what waits for a worker", b.WorkSubjects(), 0, 256<<20, maxQueued),
		values(b.Threads(), "what each thread has used", ">", l.RunsAge, 64<<20),
		values(b.Requests(), "requests that carry an idempotency key, and what came of them", "*", 0, maxRequestBytes),
		values(b.Access(), "tokens and sign-in codes of callers over HTTP, and the key of sessions", "*", 0, maxAccessBytes),
		seen,
		values(b.Push(), "who wants to be told of which run", "*", 0, maxPushBytes),
		outbox, folds, runs, events, raw,
	}
}

func (b *Bus) ensure(ctx context.Context, js jetstream.JetStream, want jetstream.StreamConfig,
	auto bool) ([]string, error) {
	s, err := reader.Look(ctx, js, want.Name)
	switch {
	case errors.Is(err, jetstream.ErrStreamNotFound):
		_, err = create(ctx, js, want)
		if errors.Is(err, jetstream.ErrStreamNameAlreadyInUse) { // created concurrently
			return b.ensure(ctx, js, want, auto)
		}
		return nil, err
	case err != nil:
		return nil, err
	}
	have := s.CachedInfo().Config
	if err := CheckFormat(have.Metadata); err != nil {
		return nil, err
	}
	next := have
	if auto {
		want.MaxBytes = have.MaxBytes
	}
	want.MaxMsgs, want.MaxMsgsPerSubject = cmp.Or(want.MaxMsgs, -1), cmp.Or(want.MaxMsgsPerSubject, -1)
	var changed []string
	for _, c := range []struct {
		name     string
		from, to any
	}{
		{"max_age", have.MaxAge, want.MaxAge},
		{"max_bytes", have.MaxBytes, want.MaxBytes},
		{"max_msgs", have.MaxMsgs, want.MaxMsgs},
		{"max_msgs_per_subject", have.MaxMsgsPerSubject, want.MaxMsgsPerSubject},
		{"discard", have.Discard, want.Discard}, // a full RAW that discards old entries loses unread ones
		{"allow_batched", have.AllowBatchPublish, want.AllowBatchPublish || have.AllowBatchPublish},
		{"allow_rollup_hdrs", have.AllowRollup, want.AllowRollup},
		{"allow_direct", have.AllowDirect, want.AllowDirect},
		{"replicas", have.Replicas, want.Replicas},
		{"duplicate_window", have.Duplicates, want.Duplicates},
		{"consumer_limits.inactive_threshold", have.ConsumerLimits.InactiveThreshold,
			want.ConsumerLimits.InactiveThreshold},
	} {
		if c.from != c.to {
			changed = append(changed, fmt.Sprintf("stream %s: %s changed from %v to %v", want.Name, c.name, c.from, c.to))
		}
	}
	if len(changed) == 0 {
		return nil, nil
	}
	next.AllowBatchPublish = want.AllowBatchPublish || have.AllowBatchPublish
	next.AllowDirect, next.AllowRollup, next.ConsumerLimits = want.AllowDirect, want.AllowRollup, want.ConsumerLimits
	next.MaxAge, next.MaxBytes, next.Replicas, next.Duplicates = want.MaxAge, want.MaxBytes, want.Replicas, want.Duplicates
	next.MaxMsgs, next.MaxMsgsPerSubject = want.MaxMsgs, want.MaxMsgsPerSubject
	next.Discard, next.DiscardNewPerSubject = want.Discard, want.DiscardNewPerSubject
	_, err = js.UpdateStream(ctx, next)
	if err != nil && next.ConsumerLimits != have.ConsumerLimits { // a consumer does not fit
		next.ConsumerLimits = have.ConsumerLimits
		_, err = js.UpdateStream(ctx, next)
	}
	return changed, err
}

// create creates a stream. A server that has just removed the last stream of an account
// may temporarily fail to create the directory of the next one.
func create(ctx context.Context, js jetstream.JetStream, want jetstream.StreamConfig) (s jetstream.Stream, err error) {
	const storeFailed = 10049
	for range 50 {
		s, err = js.CreateStream(ctx, want)
		var api *jetstream.APIError
		if !errors.As(err, &api) || api.ErrorCode != storeFailed {
			return s, err
		}
		if reader.Sleep(ctx, 20*time.Millisecond) != nil {
			return nil, err
		}
	}
	return s, err
}

// CheckFormat refuses streams that a newer version of linesman wrote.
func CheckFormat(metadata map[string]string) error {
	text, ok := metadata[metadataFormat]
	if !ok {
		return nil // created manually: the content is checked when it is read
	}
	if v, err := strconv.Atoi(text); err != nil || v > Format {
		return fmt.Errorf("%w: its records have format %.20q, and this linesman reads up to %d; use a newer one", ErrUnfit,
			text, Format)
	}
	return nil
}

// Scratch returns a bus with other names on the same connections, with the streams that
// a normalizer writes to, without limits of age and size, for [pipeline.Rebuild]. Remove
// must be called, even after an error, and removes them.
func (b *Bus) Scratch(ctx context.Context, names Names) (made *Bus, remove func(context.Context) error, err error) {
	made = b.Under(names)
	return made, made.removeStreams, made.createScratch(ctx)
}

func (b *Bus) createScratch(ctx context.Context) error {
	for _, w := range b.wanted(DefaultLimits()) {
		if slices.Contains([]string{b.Raw(), b.Work(), bucket.Stream(b.Folds())}, w.config.Name) {
			continue
		}
		w.config.RePublish, w.config.MaxAge, w.config.MaxBytes = nil, 0, -1
		if _, err := create(ctx, w.js, w.config); err != nil {
			return fmt.Errorf("stream %s: %w", w.config.Name, err)
		}
	}
	return nil
}

// RebuildNames returns the names for the temporary streams of a rebuild that begins at a time.
func (b *Bus) RebuildNames(at time.Time) Names { return Names{b.rebuildPrefix() + StreamID(at)} }

func (b *Bus) rebuildPrefix() string { return b.Prefix + "_rebuild_" }

// RemoveScratch removes the streams of rebuilds that began before a time; zero: of all. A rebuild that
// still works ends with an error.
func (b *Bus) RemoveScratch(ctx context.Context, before time.Time) (err error) {
	for _, js := range []jetstream.JetStream{b.js, b.jsPub} {
		list := js.ListStreams(ctx)
		for info := range list.Info() {
			if !b.isScratch(info) || !before.IsZero() && !info.Created.Before(before) {
				continue
			}
			if e := js.DeleteStream(ctx, info.Config.Name); !errors.Is(e, jetstream.ErrStreamNotFound) {
				err = errors.Join(err, e)
			}
		}
		err = errors.Join(err, list.Err())
	}
	return err
}

// isScratch reports whether a stream is one of [Bus.RebuildNames], and not of a linesman whose
// prefix only begins so: its name has the time at which it was created, to within an hour.
func (b *Bus) isScratch(info *jetstream.StreamInfo) bool {
	name := strings.ToLower(strings.TrimPrefix(info.Config.Name, bucket.Stream("")))
	rest, ok := strings.CutPrefix(name, strings.ToLower(b.rebuildPrefix()))
	id, _, _ := strings.Cut(rest, "_")
	nanoseconds, err := strconv.ParseInt(id, 36, 64)
	return ok && err == nil && info.Created.Sub(time.Unix(0, nanoseconds)).Abs() < time.Hour
}

// removeStreams removes all streams under the bus's names.
func (b *Bus) removeStreams(ctx context.Context) error {
	ctx, cancel := context.WithTimeout(ctx, 30*time.Second)
	defer cancel()
	var errs []error
	for _, w := range b.wanted(DefaultLimits()) {
		if err := w.js.DeleteStream(ctx, w.config.Name); err != nil && !errors.Is(err, jetstream.ErrStreamNotFound) {
			errs = append(errs, fmt.Errorf("remove %s: %w", w.config.Name, err))
		}
	}
	return errors.Join(errs...)
}

// Stores returns the identities of the streams that know an ended run: RAW and RUNS. An
// identity is the time when the stream was created: it survives restarts, and differs
// between servers, prefixes and accounts. Stores waits until the streams answer.
func (b *Bus) Stores(ctx context.Context) ([]string, error) {
	var ids []string
	for _, name := range []string{b.Raw(), bucket.Stream(b.Runs())} {
		b.await(ctx, b.log, b.js, name, nil)
		s, err := reader.Look(ctx, b.js, name)
		if err != nil {
			return nil, fmt.Errorf("stream %s: %w", name, err)
		}
		ids = append(ids, StreamID(s.CachedInfo().Created))
	}
	return ids, nil
}

// StreamID returns the identity of a stream, from the time when it was created.
func StreamID(created time.Time) string { return strconv.FormatInt(created.UnixNano(), 36) }
