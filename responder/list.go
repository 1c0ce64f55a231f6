package responder

import (
	"cmp"
	"encoding/base64"
	"fmt"
	"hash/fnv"
	"path"
	"slices"
	"strconv"
	"strings"

	"github.com/linesman/linesman/api"
	"github.com/linesman/linesman/runs"
)

// DefaultPage is the default number of runs on a page.
const DefaultPage = 20

// Page is a page of runs, the newest first.
type Page struct {
	Runs  []runs.Header
	Next  string // cursor of the next page; "": this is the last one
	Total int    // number of runs on all pages
}

// List returns a page of runs. The error is [api.Validation] for a cursor that is
// not the Next of a page of the same list.
func (s *Service) List(q api.List) (Page, error) {
	return s.list(q, func(runs.Header) bool { return true })
}

// list is List for the runs that fit, too.
func (s *Service) list(q api.List, fits func(runs.Header) bool) (Page, error) {
	if q.Limit == 0 {
		q.Limit = DefaultPage
	}
	after, err := readCursor(q)
	if err != nil {
		return Page{}, err
	}
	keep, err := s.Filter(q)
	if err != nil {
		return Page{}, err
	}
	// The newest runs after the cursor, and one more, which shows that there is a next
	// page. The snapshot visits all rows and keeps none.
	var list []cursor
	var page Page
	s.table.Snapshot(0, func(r runs.Header) bool {
		if !keep(r) || !fits(r) {
			return false
		}
		page.Total++
		c := cursorOf(q.Order, r)
		if after != nil && newer(*after, c) >= 0 {
			return false
		}
		at, _ := slices.BinarySearchFunc(list, c, newer)
		if at > q.Limit {
			return false
		}
		if list = slices.Insert(list, at, c); len(list) > q.Limit+1 {
			list = list[:q.Limit+1]
		}
		return false
	})
	if len(list) > q.Limit {
		list = list[:q.Limit]
		page.Next = list[q.Limit-1].encode(q)
	}
	for _, c := range list {
		if v, ok := s.table.Get(c.run); ok { // else it was removed meanwhile
			page.Runs = append(page.Runs, v)
		}
	}
	return page, nil
}

// maxLabels is the maximum number of labels in a filter.
const maxLabels = 16

// Filter returns the condition of a list, without regard to its page. The error is
// [api.Validation] for a label that is not KEY=VALUE.
func (s *Service) Filter(q api.List) (func(runs.Header) bool, error) {
	labels, err := readLabels(q.Labels)
	if err != nil {
		return nil, err
	}
	dir := q.Dir
	if dir != "" {
		dir = path.Clean(dir)
	}
	kind := s.agentKind(q.Agent)
	context := q.Context
	if v, ok := s.table.Get(q.Context); ok {
		context = v.Thread
	}
	return func(r runs.Header) bool {
		return (len(q.States) == 0 || slices.Contains(q.States, r.State)) &&
			(kind == "" || r.Agent == kind) &&
			(dir == "" || r.Dir != "" && path.Clean(r.Dir) == dir) &&
			(q.Thread == "" || strings.EqualFold(r.Thread, q.Thread)) &&
			(q.Context == "" || r.ID == q.Context || context != "" && strings.EqualFold(r.Thread, context)) &&
			(q.Since == 0 || ChangedAt(r) >= int64(q.Since)) && (q.Until == 0 || ChangedAt(r) < int64(q.Until)) &&
			hasLabels(r, labels) && (!q.Unseen || s.table.Unseen(r))
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

// ChangedAt is when a run entered its state, in Unix milliseconds.
func ChangedAt(r runs.Header) int64 {
	switch {
	case r.State.Final():
		return int64(cmp.Or(r.EndedAt, r.ActiveAt, r.StartedAt, r.QueuedAt))
	case r.State == runs.StateQueued:
		return int64(r.QueuedAt)
	}
	return int64(cmp.Or(r.StartedAt, r.QueuedAt))
}

// cursor is the position of a run in a list: by a time, the newest first, and
// among runs of one millisecond by their ids.
type cursor struct {
	at  int64 // Unix milliseconds
	run string
}

func cursorOf(o api.Order, r runs.Header) cursor {
	if o == api.ByChange {
		return cursor{ChangedAt(r), r.ID}
	}
	return cursor{int64(cmp.Or(r.QueuedAt, r.StartedAt)), r.ID}
}

func newer(a, b cursor) int { return cmp.Or(cmp.Compare(b.at, a.at), cmp.Compare(b.run, a.run)) }

// encode returns the cursor as text, which is valid for this list only.
func (c cursor) encode(q api.List) string {
	text := listID(q) + " " + strconv.FormatInt(c.at, 10) + " " + c.run
	return base64.RawURLEncoding.EncodeToString([]byte(text))
}

func readCursor(q api.List) (*cursor, error) {
	if q.Cursor == "" {
		return nil, nil
	}
	wrong := api.Invalid(api.FieldCursor, "must be next of an answer to the same filters")
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
	return &cursor{at, part[2]}, nil
}

// listID identifies the list that a request asks for, without its page.
func listID(q api.List) string {
	q.Limit, q.Cursor = 0, ""
	h := fnv.New64a()
	// writing to a hash never fails
	_, _ = fmt.Fprintf(h, "%q", []any{
		q.States, q.Agent, q.Dir, q.Thread, q.Context, int64(q.Since), q.Order, q.Labels, int64(q.Until), q.Unseen,
	})
	return strconv.FormatUint(h.Sum64(), 36)
}
