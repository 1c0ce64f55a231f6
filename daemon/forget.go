package daemon

import (
	"context"
	"os"
	"path/filepath"

	"github.com/linesman/linesman/api"
	"github.com/linesman/linesman/bus"
	"github.com/linesman/linesman/runs"
)

// eraser erases runs with the rights of an operator.
type eraser struct {
	bus *bus.Bus
	dir string // of the run directories
}

// Forget erases a run. A run that has a directory here is refused: its worker
// would publish the rest of its output afterwards.
func (e eraser) Forget(ctx context.Context, run string) (runs.Forgotten, error) {
	if _, err := os.Lstat(filepath.Join(e.dir, run)); err == nil {
		return runs.Forgotten{}, &api.Error{
			Code: api.Conflict, Field: api.FieldRun, Message: "its worker has not published all of its output: try again",
			Run:       run,
			Retryable: true,
		}
	}
	return e.bus.Forget(ctx, run)
}
