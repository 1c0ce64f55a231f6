package responder

import (
	"cmp"
	"context"
	"errors"
	"slices"
	"sync"
	"time"

	"github.com/linesman/linesman/api"
)

// DetailPage returns a page of the details of a run: at most q.Limit items, and about
// maxBytes, but at least one item. Without an item it waits for one, as long as q says.
// The errors are those of [Service.OpenDetail], and [api.Timeout] if it read for as long as
// one request may, and found none: the next request continues from there.
func (s *Service) DetailPage(ctx context.Context, q api.DetailRequest, maxBytes int) (api.DetailPage, error) {
	page := api.DetailPage{Items: []api.DetailItem{}, Next: q.After}
	d, err := s.OpenDetail(ctx, q.Run, q.After, q.Last)
	if err != nil {
		return page, err
	}
	defer d.Close()
	size := 0
	add := func(item api.DetailItem) error {
		n := sizeOf(item)
		if len(page.Items) == cmp.Or(q.Limit, detailPageLen) || size+n > maxBytes && size > 0 {
			return errEnough
		}
		size += n
		page.Items, page.Next = append(page.Items, item), item.Pos
		return nil
	}
	if !d.Ended {
		reading, cancel := context.WithTimeout(ctx, s.cfg.PageTime)
		defer cancel()
		err = d.inTurn(reading, func() error { return d.Each(reading, false, add) })
		late := errors.Is(err, context.DeadlineExceeded) && ctx.Err() == nil && q.Last == 0
		if late && size > 0 {
			err = errEnough
		}
		if err == nil && size == 0 && q.Wait > 0 {
			err = d.await(ctx, time.Duration(q.Wait)*time.Second, add, func() bool { return size > 0 || d.fold.Done() })
		}
		if err != nil && !errors.Is(err, errEnough) {
			kept := size == 0 && q.Last == 0 && (late || ctx.Err() != nil) && s.kept.keep(d.view.ID, q.After, d.detailCursor)
			if kept && late {
				return page, &api.Error{
					Code: api.Timeout, Limit: api.LimitWait, Run: d.view.ID, State: d.view.State, Retryable: true,
					Message: "the log of the run is long: ask again, and the reading continues where it is",
				}
			}
			return page, s.explain("read a raw log", err)
		}
	}
	page.Done = d.Ended || len(d.queue) == 0 && (d.fold.Done() || !d.wait && err == nil)
	if d.torn || d.end == 0 && !d.wait {
		page.Omitted = api.Expired
	}
	if !page.Done {
		s.kept.keep(d.view.ID, page.Next, d.detailCursor)
	}
	return page, nil
}

// await reads further entries until one of them had an item, at most for a time.
func (d *details) await(ctx context.Context, most time.Duration, each func(api.DetailItem) error,
	stop func() bool) error {
	if !d.wait {
		return nil
	}
	waiting, cancel := context.WithTimeout(ctx, most)
	defer cancel()
	err := d.read(waiting, true, each, stop)
	if waiting.Err() != nil && ctx.Err() == nil {
		return nil
	}
	return err
}

// ring keeps the newest items.
type ring struct {
	items, bytes int // at most
	all          []api.DetailItem
	size         int
	full         bool // nothing older would be kept
}

func (r *ring) add(item api.DetailItem) {
	r.all, r.size = append(r.all, item), r.size+sizeOf(item)
	for len(r.all) > r.items || r.size > r.bytes && len(r.all) > 1 {
		r.size -= sizeOf(r.all[0])
		r.all, r.full = r.all[1:], true
	}
	r.full = r.full || len(r.all) == r.items
}

// Limits of cursors that are kept between two pages, so that each page of a long run does
// not fold all of it again.
const (
	maxKept     = 64
	maxKeptSize = 256 << 10 // bytes of each
	keptFor     = time.Minute
)

// keptDetails are the cursors between two pages.
type keptDetails struct {
	mu  sync.Mutex
	all []keptCursor // the oldest first
}

type keptCursor struct {
	run, after string
	until      time.Time
	detailCursor
}

// take removes and returns the cursor of a run behind an item.
func (c *keptDetails) take(run, after string) (detailCursor, bool) {
	c.mu.Lock()
	defer c.mu.Unlock()
	c.expire()
	i := slices.IndexFunc(c.all, func(k keptCursor) bool { return k.run == run && k.after == after })
	if i < 0 {
		return detailCursor{}, false
	}
	found := c.all[i].detailCursor
	c.all = slices.Delete(c.all, i, i+1)
	return found, true
}

// keep keeps a cursor, unless it takes much memory.
func (c *keptDetails) keep(run, after string, one detailCursor) (kept bool) {
	size := one.fold.Pending()
	for _, item := range one.queue {
		size += sizeOf(item)
	}
	if size > maxKeptSize {
		return false
	}
	c.mu.Lock()
	defer c.mu.Unlock()
	c.expire()
	one.held = 0
	c.all = append(c.all, keptCursor{run, after, time.Now().Add(keptFor), one})
	if len(c.all) > maxKept {
		c.all = slices.Delete(c.all, 0, 1)
	}
	return true
}

func (c *keptDetails) expire() {
	now := time.Now()
	c.all = slices.DeleteFunc(c.all, func(k keptCursor) bool { return k.until.Before(now) })
}
