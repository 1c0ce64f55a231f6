package client

import (
	"context"
	"iter"
	"time"

	"github.com/linesman/linesman/api"
)

// detailWait is how long a request of [Client.FollowDetail] waits for an item, and foldTime
// the time limit of one that may have to read all of a run; both without the other.
const (
	detailWait = 20 * time.Second
	foldTime   = time.Minute
)

func (c *Client) detail(ctx context.Context, q api.DetailRequest, within time.Duration) (api.DetailPage, error) {
	op := api.OpDetail
	op.Within = within + time.Duration(q.Wait)*time.Second
	return op.Call(ctx, c, q)
}

// FollowDetail reads the details of a run after a position, "" being the beginning; or,
// without a position and with last, beginning with so many of the newest items, at most
// 1000. With follow it continues until the completion of the run or the end of ctx, which
// is no error. It retries while the responder is unavailable or busy, for up to 30 s, and
// when it is replaced. An error ends it; to resume, use the Pos of the last item.
func (c *Client) FollowDetail(ctx context.Context, run, after string, last int,
	follow bool) iter.Seq2[api.DetailItem, error] {
	return func(yield func(api.DetailItem, error) bool) {
		q := api.DetailRequest{Run: run, After: after, Last: last, Limit: api.MaxDetailItems}
		if follow {
			q.Wait = int64(detailWait / time.Second)
		}
		var p patience
		for within := foldTime; ; {
			page, err := c.detail(ctx, q, within)
			switch {
			case ctx.Err() != nil:
				return
			case err == nil:
				p.answered()
			default:
				if err = p.wait(ctx, err); err != nil && ctx.Err() == nil {
					yield(api.DetailItem{}, err)
					return
				}
				continue
			}
			for _, item := range page.Items {
				if !yield(item, nil) {
					return
				}
			}
			if page.Done || !follow && len(page.Items) == 0 {
				return
			}
			q.After, within = page.Next, answerTime
		}
	}
}
