package client

import (
	"context"
	"errors"
	"iter"

	"github.com/linesman/linesman/api"
)

// Resolve returns the id of the run that a reference names.
func (c *Client) Resolve(_ context.Context, ref string) (string, error) { return ref, nil }

// Seen marks a run as seen.
func (c *Client) Seen(context.Context, string) error { return nil }

// Detail returns a page.
func (c *Client) Detail(ctx context.Context, q api.DetailRequest) (api.DetailPage, error) {
	return call[api.DetailPage](ctx, c, "detail", q, 2*answerTime)
}

// FollowDetail follows.
func (c *Client) FollowDetail(ctx context.Context, q api.DetailRequest) iter.Seq2[api.DetailItem, error] {
	return func(yield func(api.DetailItem, error) bool) {
		for {
			q.Wait = 10
			page, err := c.Detail(ctx, q)
			if err != nil {
				if !errors.Is(err, context.Canceled) {
					yield(api.DetailItem{}, err)
				}
				return
			}
			for _, i := range page.Items {
				if !yield(i, nil) {
					return
				}
			}
			if page.Done {
				return
			}
			q.After, q.Last = page.Next, 0
		}
	}
}
