package responder

import (
	"encoding/base64"
	"fmt"
	"hash/fnv"
	"path"
	"slices"
	"strconv"
	"strings"

	"github.com/linesman/linesman/api"
	"github.com/linesman/linesman/responder/codexcloud"
	"github.com/linesman/linesman/responder/runtable"
	"github.com/linesman/linesman/runs"
)

// DefaultPage is the default number of runs on a page.
const DefaultPage = 20

// page is a page of runs, the newest first.
type page struct {
	Runs []runs.Header
	Next string // cursor of the next page; "": this is the last one
}

// List returns a page of runs. The error is [api.Validation] for a cursor that is
// not the Next of a page of the same list.
func (s *Service) List(q api.List) (page, error) {
	return s.list(q, among(q), func(runs.Header) bool { return true })
}

// list is List for the runs that are among some and fit, too.
func (s *Service) list(q api.List, some runtable.Among, fits func(runs.Header) bool) (page, error) {
	if q.Limit == 0 {
		q.Limit = DefaultPage
	}
	after, err := readCursor(q)
	if err != nil {
		return page{}, err
	}
	keep, err := s.Filter(q)
	if err != nil {
		return page{}, err
	}
	var page page
	var last runtable.Point
	oldest := q.Since
	if q.Unseen {
		oldest = max(oldest, runtable.OldestUnseen())
	}
	s.table.Walk(q.Order == api.ByChange, some, after, func(r runs.Header) bool {
		switch {
		case q.Order == api.ByChange && r.ChangedAt() < oldest:
			return false
		case !keep(r) || !fits(r):
		case len(page.Runs) == q.Limit: // there is a next page
			page.Next = cursorAt(last, q)
			return false
		default:
			page.Runs = append(page.Runs, r)
			last = pointOf(q.Order, r)
		}
		return true
	})
	for i := range page.Runs {
		if v, ok := s.table.Get(page.Runs[i].ID); ok { // with what depends on others
			page.Runs[i] = v
		}
	}
	return page, nil
}

// among is what a walk may leave out of a list.
func among(q api.List) runtable.Among {
	labels, _ := readLabels(q.Labels) // which were checked by Filter
	return runtable.Among{States: q.States, Labels: labels, Dir: q.Dir}
}

// Count returns how many runs a list has on all its pages.
func (s *Service) Count(q api.List) (n int, err error) {
	keep, err := s.Filter(q)
	if err != nil {
		return 0, err
	}
	s.table.Walk(false, among(q), nil, func(r runs.Header) bool {
		if keep(r) {
			n++
		}
		return true
	})
	return n, nil
}

// Overview is a snapshot of the runs of a list, without those of Codex Cloud; queue: of tasks alone. Without a filter
// it visits no run to count it.
func (s *Service) Overview(q api.List, limit int, queue bool) (runtable.Snapshot, error) {
	keep, err := s.Filter(q)
	if err != nil {
		return runtable.Snapshot{}, err
	}
	kind := s.agentKind(q.Agent)
	of := func(agent, source string) bool {
		return agent != codexcloud.Agent && (!queue || source == runs.SourceQueue) && (kind == "" || agent == kind)
	}
	if len(q.States)+len(q.Labels)+len(q.Words) == 0 && q.Dir+q.Thread+q.Context == "" && q.Since == 0 && q.Until == 0 &&
		!q.Unseen {
		keep = nil
	}
	return s.table.SnapshotOf(limit, among(q), of, keep), nil
}

var openStates = []runs.State{runs.StateQueued, runs.StateWorking, runs.StateInputRequired}

// maxLabels is the maximum number of labels in a filter.
const maxLabels = 16

// Filter returns the condition of a list, without regard to its page. The error is
// [api.Validation] for a label that is not KEY=VALUE, and for a state that is none: no run would fit.
func (s *Service) Filter(q api.List) (func(runs.Header) bool, error) {
	for _, state := range q.States {
		if !state.Final() && !slices.Contains(openStates, state) {
			return nil, api.Invalid("states", "must be states of a run: queued, working, input-required, completed, "+
				"failed, cancelled or timeout")
		}
	}
	labels, err := readLabels(q.Labels)
	if err != nil {
		return nil, err
	}
	dir := q.Dir
	if dir != "" {
		dir = path.Clean(dir)
	}
	words, err := s.readWords(q.Words)
	if err != nil {
		return nil, err
	}
	kind := s.agentKind(q.Agent)
	in := s.inContext(q.Context)
	return func(r runs.Header) bool {
		return (len(q.States) == 0 || slices.Contains(q.States, r.State)) &&
			(kind == "" || r.Agent == kind) &&
			(dir == "" || r.Dir != "" && path.Clean(r.Dir) == dir) &&
			(q.Thread == "" || strings.EqualFold(r.Thread, q.Thread)) &&
			(q.Context == "" || in(r)) &&
			(q.Since == 0 || r.ChangedAt() >= q.Since) && (q.Until == 0 || r.ChangedAt() < q.Until) &&
			hasLabels(r, labels) && (!q.Unseen || s.table.Unseen(r)) && (words == nil || words(r))
	}, nil
}

// readLabels splits labels of the form KEY=VALUE.
func readLabels(all []string) (labels [][2]string, err error) {
	if len(all) > maxLabels {
		return nil, api.Invalid(api.FieldLabels, fmt.Sprintf("at most %d, got %d", maxLabels, len(all)))
	}
	for _, one := range all {
		key, value, ok := strings.Cut(one, "=")
		if !ok || runs.LabelsOf(map[string]string{key: value}).Check() != nil {
			return nil, api.Invalid(api.FieldLabels, "must be of the form KEY=VALUE")
		}
		labels = append(labels, [2]string{key, value})
	}
	return labels, nil
}

func hasLabels(r runs.Header, labels [][2]string) bool {
	return !slices.ContainsFunc(labels, func(l [2]string) bool { return !r.Labels.Has(l[0], l[1]) })
}

// pointOf is the place of a run in a list.
func pointOf(o api.Order, r runs.Header) runtable.Point {
	return runtable.PointOf(o == api.ByChange, r)
}

// cursorAt returns a place as text, which is valid for this list only.
func cursorAt(c runtable.Point, q api.List) string {
	text := listID(q) + " " + strconv.FormatInt(int64(c.At), 10) + " " + c.Run
	return base64.RawURLEncoding.EncodeToString([]byte(text))
}

func readCursor(q api.List) (*runtable.Point, error) {
	if q.Cursor == "" {
		return nil, nil
	}
	wrong := api.Invalid("cursor", "must be next of an answer to the same filters")
	text, err := base64.RawURLEncoding.DecodeString(q.Cursor)
	if err != nil {
		return nil, wrong
	}
	part := strings.Split(string(text), " ")
	if len(part) != 3 || part[0] != listID(q) || runs.CheckID(part[2]) != nil {
		return nil, wrong
	}
	at, err := strconv.ParseInt(part[1], 10, 64)
	if err != nil {
		return nil, wrong
	}
	return &runtable.Point{At: runs.Time(at), Run: part[2]}, nil
}

// listID identifies the list that a request asks for, without its page.
func listID(q api.List) string {
	q.Limit, q.Cursor, q.Covers = 0, "", false
	h := fnv.New64a()
	// writing to a hash never fails
	_, _ = fmt.Fprintf(h, "%q", []any{
		q.States, q.Agent, q.Dir, q.Thread, q.Context, int64(q.Since), q.Order, q.Labels, int64(q.Until), q.Unseen, q.Words,
	})
	return strconv.FormatUint(h.Sum64(), 36)
}
