package responder

import (
	"context"
	"time"
)

type patienceKey struct{}

// WithPatience adds to a context how long its caller waits for an answer at most, because it
// hears nothing before. A request that waits for a run answers sooner, and the run continues.
func WithPatience(ctx context.Context, most time.Duration) context.Context {
	return context.WithValue(ctx, patienceKey{}, most)
}

// Patience returns what [WithPatience] added; false: the caller waits as long as it asks for.
func Patience(ctx context.Context) (most time.Duration, bounded bool) {
	most, bounded = ctx.Value(patienceKey{}).(time.Duration)
	return most, bounded
}

type dirKey struct{}

// WithDir adds to a context the directory of its caller, in which a task works that names none; "": no
// directory.
func WithDir(ctx context.Context, dir string) context.Context {
	return context.WithValue(ctx, dirKey{}, dir)
}
