package chaos

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"strings"

	"github.com/nats-io/nats.go/jetstream"

	"github.com/linesman/linesman/bus"
	"github.com/linesman/linesman/runs"
)

// Server is a connection to a NATS server with linesman's streams: as an
// operator, to the inside account and to the public one. On a server with one
// account both are the same.
type Server struct {
	Names  bus.Names
	Inside jetstream.JetStream
	Public jetstream.JetStream
}

// Gather reads all that the streams hold. Nobody should be writing to them:
// what comes while it reads may be seen in one stream and not in the next.
func (s Server) Gather(ctx context.Context) (Evidence, error) {
	e := Evidence{Names: s.Names, Runs: map[string]Message{}, Logs: map[string][]byte{}}
	var err error
	if e.Raw, err = read(ctx, s.Inside, s.Names.Raw()); err != nil {
		return e, err
	}
	if e.Events, err = read(ctx, s.Public, s.Names.Events()); err != nil {
		return e, err
	}
	records, err := read(ctx, s.Inside, stream(s.Names.Runs()))
	if err != nil {
		return e, err
	}
	prefix := "$KV." + s.Names.Runs() + "."
	for _, m := range records {
		e.Runs[strings.TrimPrefix(m.Subject, prefix)] = m
	}
	for _, bucket := range []string{s.Names.State(), s.Names.Threads(), s.Names.Requests(), s.Names.Folds()} {
		more, err := read(ctx, s.Inside, stream(bucket))
		if err != nil {
			return e, err
		}
		e.Others = append(e.Others, more...)
	}
	e.Work, err = s.Waiting(ctx)
	return e, err
}

// Waiting are the subjects of WORK that hold a task. Its queue admits no
// consumer but the workers'.
func (s Server) Waiting(ctx context.Context) ([]string, error) {
	return s.subjects(ctx, s.Names.Work(), s.Names.WorkSubjects())
}

// Begun are the runs that RAW has anything of.
func (s Server) Begun(ctx context.Context) ([]string, error) {
	all, err := s.subjects(ctx, s.Names.Raw(), s.Names.RawSubjects())
	for i, subject := range all {
		all[i] = subject[strings.LastIndexByte(subject, '.')+1:]
	}
	return all, err
}

// Record is the record of a run; nil where there is none.
func (s Server) Record(ctx context.Context, run string) (*runs.Record, error) {
	records, err := s.Inside.Stream(ctx, stream(s.Names.Runs()))
	if err != nil {
		return nil, fmt.Errorf("stream %s: %w", stream(s.Names.Runs()), err)
	}
	m, err := records.GetLastMsgForSubject(ctx, "$KV."+s.Names.Runs()+"."+run)
	if errors.Is(err, jetstream.ErrMsgNotFound) {
		return nil, nil
	}
	if err != nil {
		return nil, fmt.Errorf("run %s: %w", run, err)
	}
	var v struct {
		Record *runs.Record `json:"record"`
	}
	if err := json.Unmarshal(m.Data, &v); err != nil {
		return nil, fmt.Errorf("run %s: its record is not of the known form", run)
	}
	return v.Record, nil
}

func (s Server) subjects(ctx context.Context, name, filter string) ([]string, error) {
	stream, err := s.Inside.Stream(ctx, name)
	if err != nil {
		return nil, fmt.Errorf("stream %s: %w", name, err)
	}
	info, err := stream.Info(ctx, jetstream.WithSubjectFilter(filter))
	if err != nil {
		return nil, fmt.Errorf("stream %s: %w", name, err)
	}
	all := make([]string, 0, len(info.State.Subjects))
	for subject := range info.State.Subjects {
		all = append(all, subject)
	}
	return all, nil
}

func stream(bucket string) string { return "KV_" + bucket }

// read reads a stream from its first message to the one that is its last now.
func read(ctx context.Context, js jetstream.JetStream, name string) ([]Message, error) {
	stream, err := js.Stream(ctx, name)
	if err != nil {
		return nil, fmt.Errorf("stream %s: %w", name, err)
	}
	state := stream.CachedInfo().State
	if state.Msgs == 0 {
		return nil, nil
	}
	consumer, err := stream.OrderedConsumer(ctx, jetstream.OrderedConsumerConfig{
		DeliverPolicy: jetstream.DeliverAllPolicy})
	if err != nil {
		return nil, fmt.Errorf("read %s: %w", name, err)
	}
	messages, err := consumer.Messages()
	if err != nil {
		return nil, fmt.Errorf("read %s: %w", name, err)
	}
	defer messages.Stop()
	all := make([]Message, 0, state.Msgs)
	for {
		m, err := messages.Next(jetstream.NextContext(ctx))
		if errors.Is(err, jetstream.ErrNoHeartbeat) {
			continue
		}
		if err != nil {
			return nil, fmt.Errorf("read %s: %w", name, err)
		}
		meta, err := m.Metadata()
		if err != nil {
			return nil, fmt.Errorf("read %s: %w", name, err)
		}
		if meta.Sequence.Stream > state.LastSeq {
			return all, nil
		}
		all = append(all, Message{meta.Sequence.Stream, m.Subject(), m.Headers(), m.Data()})
		if meta.Sequence.Stream == state.LastSeq {
			return all, nil
		}
		if meta.NumPending == 0 { // as far as the replica knows that the consumer is on
			more, err := hasFrom(ctx, js, name, meta.Sequence.Stream+1)
			if err != nil || !more {
				return all, err
			}
		}
	}
}

// hasFrom reports whether a stream has a message from a sequence on, as its
// leader says.
func hasFrom(ctx context.Context, js jetstream.JetStream, name string, seq uint64) (bool, error) {
	m, err := js.Conn().RequestWithContext(ctx, "$JS.API.STREAM.MSG.GET."+name,
		fmt.Appendf(nil, `{"seq":%d,"next_by_subj":">"}`, seq))
	if err != nil {
		return false, fmt.Errorf("read %s from %d: %w", name, seq, err)
	}
	var answer struct {
		Error *jetstream.APIError `json:"error"`
	}
	if err := json.Unmarshal(m.Data, &answer); err != nil {
		return false, fmt.Errorf("read %s from %d: %w", name, seq, err)
	}
	switch {
	case answer.Error == nil:
		return true, nil
	case answer.Error.ErrorCode == jetstream.JSErrCodeMessageNotFound:
		return false, nil
	}
	return false, fmt.Errorf("read %s from %d: %w", name, seq, answer.Error)
}
