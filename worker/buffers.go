package worker

import (
	"sync"

	"github.com/linesman/linesman/runs"
)

const (
	maxEntries = 256                        // of a run that are appended at once
	maxPiece   = maxEntries * runs.MaxChunk // bytes of a backlog that are read at once
	maxPieces  = 1                          // such reads of a worker at a time
)

// buffers are for the output of runs that is being sent: one chunk for each run, and in
// addition at most maxPieces of maxPiece for runs with a backlog, 16 MiB in total. One run gets
// all of it, as bursts are for a run that writes alone.
type buffers struct {
	chunks, pieces *sync.Pool
	budget         chan struct{} // has an element for each piece in use
}

func newBuffers() buffers {
	return buffers{
		chunks: &sync.Pool{New: func() any { return new([runs.MaxChunk]byte) }},
		pieces: &sync.Pool{New: func() any { return new([maxPiece]byte) }},
		budget: make(chan struct{}, maxPieces),
	}
}

// take returns a buffer for a read of size bytes, until release is called. It has
// [runs.MaxChunk] bytes if size is not larger, or if too many runs read more.
func (b *buffers) take(size int64) (buf []byte, release func()) {
	if size > runs.MaxChunk {
		select {
		case b.budget <- struct{}{}:
			piece := b.pieces.Get().(*[maxPiece]byte)
			return piece[:min(size, maxPiece)], func() {
				b.pieces.Put(piece)
				<-b.budget
			}
		default:
		}
	}
	chunk := b.chunks.Get().(*[runs.MaxChunk]byte)
	return chunk[:], func() { b.chunks.Put(chunk) }
}
