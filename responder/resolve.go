package responder

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"slices"
	"strings"
	"time"

	"github.com/linesman/linesman/api"
	"github.com/linesman/linesman/responder/runtable"
	"github.com/linesman/linesman/runs"
)

// Limits of references.
const (
	minReference  = 3   // characters of the beginning or the end of an id
	maxReference  = 512 // bytes
	maxCandidates = 5   // runs that an error lists
)

// newestRun is the reference to the newest run.
const newestRun = "last"

// Resolve returns the id of the run that a reference names: an id, which counts first; an id
// without T-local- or T-cloud-; the unique beginning, with or without these, or the unique
// end of an id, of at least 3 characters; [newestRun], the run that was queued or, without a
// queue, started last; or a label KEY=VALUE, the newest run that has it. The error is
// [api.NotFound], [api.Conflict] for a reference to several runs, which it lists as issues,
// or [api.Validation].
func (s *Service) Resolve(ctx context.Context, ref string) (string, error) {
	if ref == "" || len(ref) > maxReference {
		return "", api.Invalid(api.FieldRef, fmt.Sprintf("must have 1 to %d bytes", maxReference))
	}
	if runs.CheckID(ref) == nil {
		switch _, err := s.Look(ctx, ref); {
		case err == nil:
			return ref, nil
		case !api.Is(err, api.NotFound):
			return "", err
		}
	}
	if ref == newestRun {
		return s.newest(ctx, api.List{})
	}
	if strings.Contains(ref, "=") {
		return s.newest(ctx, api.List{Labels: []string{ref}})
	}
	return s.part(ref)
}

// newest returns the first run of a list.
func (s *Service) newest(ctx context.Context, q api.List) (string, error) {
	if err := s.current(ctx); err != nil {
		return "", err
	}
	q.Limit = 1
	page, err := s.List(q)
	switch {
	case err != nil:
		return "", err
	case len(page.Runs) == 0:
		return "", noRun()
	}
	return page.Runs[0].ID, nil
}

// currentTime is how long a request waits for the rows of runs that have just started. They
// follow the raw log after about a second.
const currentTime = 1500 * time.Millisecond

// current waits until the table has what RAW has now.
func (s *Service) current(ctx context.Context) error {
	_, end, err := s.cfg.Streams.EntriesEnd(ctx, api.DefaultAgent, newestRun)
	if err != nil {
		return s.explain("read the end of RAW", err)
	}
	late := time.NewTimer(currentTime)
	defer late.Stop()
	poll := time.NewTicker(20 * time.Millisecond)
	defer poll.Stop()
	for {
		if seq, _ := s.table.Basis(); seq >= end {
			return nil
		}
		select {
		case <-poll.C:
		case <-late.C:
			return nil
		case <-ctx.Done():
			return ctx.Err()
		}
	}
}

func noRun() *api.Error {
	return &api.Error{Code: api.NotFound, Field: api.FieldRef, Message: "there is no such run"}
}

// part returns the run whose id without its type is a text, or the one whose id begins or ends with it.
func (s *Service) part(ref string) (string, error) {
	var all []runs.Header
	exact := ""
	s.table.Walk(false, runtable.Among{}, nil, func(r runs.Header) bool {
		short := shortID(r.ID)
		if short == ref {
			exact = r.ID
		}
		if len(ref) >= minReference &&
			(strings.HasPrefix(short, ref) || strings.HasPrefix(r.ID, ref) || strings.HasSuffix(r.ID, ref)) {
			all = append(all, r)
		}
		return true
	})
	switch {
	case exact != "":
		return exact, nil
	case len(ref) < minReference:
		return "", api.Invalid(api.FieldRef, fmt.Sprintf("must have at least %d characters of an id", minReference))
	case len(all) == 0:
		return "", noRun()
	case len(all) == 1:
		return all[0].ID, nil
	}
	slices.SortFunc(all, func(a, b runs.Header) int { return pointOf("", a).Compare(pointOf("", b)) })
	e := &api.Error{
		Code: api.Conflict, Field: api.FieldRef, Message: fmt.Sprintf("fits %d runs", len(all)),
		Unlisted: max(len(all)-maxCandidates, 0),
	}
	for _, r := range all[:min(len(all), maxCandidates)] {
		e.Issues = append(e.Issues, api.Issue{
			Field: r.ID, Problem: strings.TrimSpace(string(r.State) + " " + cmp.Or(r.Title, "")),
		})
	}
	return "", e
}

// shortID is an id without the part that all ids of its kind have.
func shortID(id string) string {
	for _, prefix := range []string{"T-local-", "T-cloud-"} {
		if short, ok := strings.CutPrefix(id, prefix); ok {
			return short
		}
	}
	return id
}

// Seen marks a run that has ended as opened by its owner. Repeating it is not an error. The
// error is [api.NotFound] for an unknown run, and [api.NotEnded] for one that has not ended.
func (s *Service) Seen(ctx context.Context, q api.RunRequest) (api.Seen, error) {
	v, err := s.table.SetSeen(ctx, q.Run)
	if errors.Is(err, runtable.ErrOpen) {
		return api.Seen{}, &api.Error{
			Code: api.NotEnded, Field: api.FieldRun, Message: "only a run that has ended can be marked as seen: it is " +
				string(v.State), Run: q.Run, State: v.State,
		}
	}
	return api.Seen{Run: q.Run, State: v.State, Unseen: v.Unseen}, s.explainRun(q.Run, "mark as seen", err)
}
