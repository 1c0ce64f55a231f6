package daemon

import (
	"errors"
	"fmt"
	"io"

	"github.com/linesman/linesman/normalizer"
	"github.com/linesman/linesman/runs"
)

// Normalize derives the events of the output of an agent, and prints them as lines
// after each read, because the input may be a pipe that stays open. With an exit
// code, the last line is the completion of the run.
func Normalize(in io.Reader, b normalizer.Backend, maxLine int, exitCode *int, print func(lines []byte) error) error {
	var lines []byte
	fold := normalizer.NewFold(b, "T-local-stdin", maxLine)
	apply := func(seq uint64, e runs.Entry) error {
		lines = lines[:0]
		fold.Apply(seq, e, func(m normalizer.Message) {
			if m.Token != normalizer.CompletionToken || exitCode != nil {
				lines = append(append(lines, m.Body...), '\n')
			}
		})
		if err := print(lines); err != nil {
			return fmt.Errorf("stdout: %w", err)
		}
		return nil
	}
	chunk := make([]byte, runs.MaxChunk)
	var offset int64
	for seq := uint64(1); ; seq++ {
		n, err := in.Read(chunk)
		failed := apply(seq, runs.Entry{Kind: runs.Out, Offset: offset, Body: chunk[:n]})
		offset += int64(n)
		switch {
		case failed != nil:
			return failed
		case errors.Is(err, io.EOF):
			exit := runs.Exit{Reason: runs.ReasonEOF}
			if exitCode != nil {
				exit = runs.Exit{Reason: runs.ReasonExited, Code: exitCode}
			}
			return apply(seq+1, runs.Entry{Kind: runs.Exited, Body: runs.Encode(exit)})
		case err != nil:
			return fmt.Errorf("stdin: %w", err)
		}
	}
}
