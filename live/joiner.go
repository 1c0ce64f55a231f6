package live

import (
	"bytes"

	"github.com/linesman/linesman/agent/acp"
)

// place is where a line begins: the sequence of the entry, and the offset in the output.
type place struct {
	seq    uint64
	offset int64
}

// joiner joins output to lines. It keeps at most MaxLine bytes.
type joiner struct {
	line []byte    // that is not finished
	skim *acp.Skim // of a line that is too long, or of which bytes are missing; else nil
	at   place     // of either
}

func (j *joiner) unfinished() bool { return len(j.line) > 0 || j.skim != nil }

func (j *joiner) reset() { *j = joiner{} }

// add gives the lines that end in the next piece of output, at a place of the log, to the conversation. Bytes that
// it has are dropped.
func (j *joiner) add(c *Conversation, at place, piece []byte) {
	known := max(c.s.Out-at.offset, 0)
	if known >= int64(len(piece)) {
		return
	}
	if at.offset > c.s.Out {
		j.missing(at)
	}
	at.offset, piece = at.offset+known, piece[known:]
	c.s.Out = at.offset + int64(len(piece))
	for len(piece) > 0 {
		if !j.unfinished() {
			j.at = at
		}
		end := bytes.IndexByte(piece, '\n')
		if end < 0 {
			j.keep(piece)
			return
		}
		j.end(c, piece[:end])
		at.offset, piece = at.offset+int64(end)+1, piece[end+1:]
	}
}

// missing says that the output before a place is not in the log.
func (j *joiner) missing(at place) {
	if !j.unfinished() {
		j.at = at
	}
	j.toSkim()
	j.skim.Cut()
}

func (j *joiner) toSkim() {
	if j.skim == nil {
		j.skim = &acp.Skim{}
		j.skim.Write(j.line)
		j.line = nil
	}
}

func (j *joiner) keep(piece []byte) {
	if len(j.line)+len(piece) > maxLine {
		j.toSkim()
	}
	if j.skim != nil {
		j.skim.Write(piece)
		return
	}
	j.line = append(j.line, piece...)
}

// end gives the line that ends with a piece to the conversation.
func (j *joiner) end(c *Conversation, piece []byte) {
	line := piece
	if j.unfinished() || len(piece) > maxLine {
		j.keep(piece)
		line = j.line
	}
	at, skim := j.at, j.skim
	j.reset()
	if skim != nil {
		m := skim.Message()
		c.message(&m, at, 0)
		return
	}
	m, _ := acp.Read(line) // one with a fault is invalid
	c.message(&m, at, len(line))
}
