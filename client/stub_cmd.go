package client

import "context"

// Resolve returns the id of the run that a reference names.
func (c *Client) Resolve(_ context.Context, ref string) (string, error) { return ref, nil }

// Seen marks a run as seen.
func (c *Client) Seen(context.Context, string) error { return nil }
