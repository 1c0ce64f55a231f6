package natsagents

import (
	"context"
	"crypto/rand"
	"fmt"
	"maps"
	"slices"
	"strings"
	"time"

	"github.com/nats-io/nats.go"
	"go.uber.org/zap"

	"github.com/linesman/linesman/api"
	"github.com/linesman/linesman/bounds"
	"github.com/linesman/linesman/responder"
)

// What the agent of a live run asks becomes a query of its stream: the first message to the reply subject of the query
// answers that question, and nothing else. Others may answer it before; then the query is withdrawn.

const (
	maxQueries   = 4            // for one question: the first one, and after answers that fit nothing
	maxQuery     = 64 << 10     // bytes of a question as text
	maxQueryJSON = 2 * maxQuery // and of that as JSON
	askAgain     = time.Second  // until a question that could not be read is read again
)

// query is an open question of which the caller is asked.
type query struct {
	id       string // of the last query
	count    int    // of queries
	question *api.Question
	sub      *nats.Subscription // nil: the caller is not asked
}

// reply is what the caller says.
type reply struct {
	question, query string
	body            []byte
}

// query asks the caller what the run asks people, until ctx ends.
func (t *stream) query(ctx context.Context) error {
	open, replies := map[string]*query{}, make(chan reply)
	defer func() {
		for _, q := range open {
			q.withdraw()
		}
	}()
	var ids []string
	var again <-chan time.Time
	ask := func() error {
		all, err := t.ask(ctx, open, ids, replies)
		if again = nil; !all { // a run that waits does not change
			again = time.After(askAgain)
		}
		return err
	}
	for {
		var err error
		select {
		case <-ctx.Done():
			return nil
		case ids = <-t.asked:
			err = ask()
		case <-again:
			err = ask()
		case r := <-replies:
			if q := open[r.question]; q != nil && q.id == r.query && q.sub != nil {
				err = t.decide(ctx, q, r.body, replies)
			}
		}
		if err != nil {
			return err
		}
	}
}

// ask asks the caller what is open now, and withdraws what is not. All reports whether each question could be read.
func (t *stream) ask(
	ctx context.Context, open map[string]*query, ids []string, replies chan<- reply,
) (all bool, err error) {
	for _, id := range slices.Sorted(maps.Keys(open)) {
		if q := open[id]; !slices.Contains(ids, id) {
			delete(open, id)
			if q.withdraw() {
				if err := t.settled(q, api.Answered{}); err != nil {
					return false, err
				}
			}
		}
	}
	all = true
	for _, id := range ids {
		if open[id] != nil {
			continue
		}
		record, err := t.s.Service.Record(ctx, t.run)
		var asked *api.Question
		if err == nil {
			asked, err = t.s.Service.QuestionOf(ctx, record, id)
		}
		if err != nil { // it is asked elsewhere, and here later
			all = false
			t.s.Log.Debug("a question cannot be read", zap.Error(err))
		}
		if asked == nil {
			continue
		}
		open[id] = &query{question: asked}
		if err := t.put(ctx, open[id], "", replies); err != nil {
			return false, err
		}
	}
	return all, nil
}

// put sends a query. Why says what was wrong with the answer to the one before.
func (t *stream) put(ctx context.Context, q *query, why string, replies chan<- reply) error {
	q.count++
	if q.id = q.question.ID; q.count > 1 {
		q.id += fmt.Sprintf("-%d", q.count)
	}
	text := responder.QueryText(q.question, maxQuery)
	for most := maxQuery / 2; bounds.StringSize(text) > maxQueryJSON; most /= 2 {
		text = responder.QueryText(q.question, most)
	}
	if why != "" {
		text = why + "\n" + text
	}
	r := reply{question: q.question.ID, query: q.id}
	subject := t.s.Names.AgentReply(strings.ToLower(rand.Text()[:22]))
	var err error
	if q.sub, err = t.s.Conn.Subscribe(subject, func(m *nats.Msg) {
		r.body = m.Data
		select {
		case replies <- r:
		case <-ctx.Done():
		}
	}); err == nil {
		err = q.sub.AutoUnsubscribe(1)
	}
	if err != nil {
		return errLost
	}
	type data struct {
		ID      string `json:"id"`
		Subject string `json:"reply_subject"`
		Prompt  string `json:"prompt"`
	}
	body, err := bounds.Encode(struct { // unlike message without escapes of HTML
		Type string `json:"type"`
		Data data   `json:"data"`
	}{"query", data{q.id, subject, text}})
	if err != nil {
		return err
	}
	return t.send(body)
}

// withdraw ends the subscription of a query, and reports whether there was one.
func (q *query) withdraw() bool {
	if q.sub == nil {
		return false
	}
	_ = q.sub.Unsubscribe() // fails only if it has ended
	q.sub = nil
	return true
}

// decide gives the answer of the caller. One that fits nothing is asked for again, a few times.
func (t *stream) decide(ctx context.Context, q *query, body []byte, replies chan<- reply) error {
	q.withdraw()
	text, err := said(body)
	a, fits := responder.AnswerOf(q.question, text)
	if err == nil && !fits {
		err = api.Invalid("answer", "fits none of what is offered")
	}
	var done api.Answered
	if err == nil {
		done, err = t.s.Service.Decide(t.profile.In(ctx), a)
	}
	switch e := api.Known(err); {
	case err == nil:
		return t.settled(q, done)
	case e.Code == api.Conflict || e.Code == api.NotWaiting || e.Code == api.NotFound || e.Code == api.Ended:
		return t.settled(q, api.Answered{})
	case ctx.Err() == nil && q.count < maxQueries:
		return t.put(ctx, q, "That is no answer: "+e.Error()+".", replies)
	}
	return nil // it is open for others
}

// settled tells the caller that a query is not open any more, and with which outcome if it answered it.
func (t *stream) settled(q *query, a api.Answered) error {
	about := map[string]string{"id": q.id}
	if a.Outcome != "" {
		about["outcome"] = a.Outcome
	}
	return t.send(message("linesman.answered", about))
}
