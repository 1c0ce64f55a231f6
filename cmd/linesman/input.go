package main

import (
	"cmp"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"os"
	"strings"
	"unicode/utf8"

	"github.com/linesman/linesman/runs"
	"github.com/linesman/linesman/worker"
)

// readPrompt returns the text of a task: that of a file if one is given, that of stdin if text is
// "-", without the newlines at its end.
func readPrompt(ctx context.Context, stdin io.Reader, text, file string) (string, error) {
	if file == "" && text != "-" {
		return text, nil
	}
	const most = runs.MaxPrompt + 64 // some of it newlines
	b, err := readInput(ctx, stdin, cmp.Or(file, "-"), most)
	switch {
	case err != nil:
		return "", err
	case len(b) > most:
		return "", fmt.Errorf("at most %d bytes", runs.MaxPrompt)
	case !utf8.Valid(b):
		return "", errors.New("must be UTF-8 text")
	}
	return strings.TrimRight(string(b), "\r\n"), nil
}

// readSchema returns the JSON of the file of a schema; path "": none.
func readSchema(ctx context.Context, stdin io.Reader, path string) (json.RawMessage, error) {
	if path == "" {
		return nil, nil
	}
	b, err := readInput(ctx, stdin, path, runs.MaxSchema)
	switch {
	case err != nil:
		return nil, err
	case len(b) > runs.MaxSchema:
		return nil, fmt.Errorf("at most %d bytes", runs.MaxSchema)
	case !json.Valid(b):
		return nil, fmt.Errorf("%s is no JSON", path)
	}
	return b, nil
}

// readReply returns the answer to a request: a failure if that is not "", else text, else the
// content of a file, of stdin without one.
func readReply(
	ctx context.Context, stdin io.Reader, text *string, file, failure string,
) (r runs.Reply, err error) {
	switch {
	case failure != "":
		return runs.Reply{Status: runs.ReplyError, Error: failure}, nil
	case text != nil:
		return runs.Reply{Status: runs.ReplySuccess, Text: *text}, nil
	}
	b, err := readInput(ctx, stdin, cmp.Or(file, "-"), runs.MaxReply)
	if err != nil {
		return r, fmt.Errorf("read the answer: %w", err)
	}
	return runs.Reply{Status: runs.ReplySuccess, Text: string(b)}, nil
}

// readInput reads a file, or stdin if the path is "-", until ctx ends; of one that is larger than
// limit it reads limit+1 bytes.
func readInput(ctx context.Context, stdin io.Reader, path string, limit int64) ([]byte, error) {
	in := stdin
	if path != "-" {
		f, err := openInput(ctx, path)
		if err != nil {
			return nil, err
		}
		defer f.Close()
		in = f
	}
	b, err := io.ReadAll(io.LimitReader(worker.Interruptible(ctx, in), limit+1))
	if err != nil && path == "-" {
		err = fmt.Errorf("stdin: %w", err)
	}
	return b, err
}

// openInput opens a file, and waits for the writer of a FIFO until ctx ends.
func openInput(ctx context.Context, path string) (*os.File, error) {
	var f *os.File
	var err error
	opened := make(chan struct{})
	go func() {
		defer close(opened)
		f, err = os.Open(path)
	}()
	select {
	case <-opened:
		return f, err
	case <-ctx.Done(): // so does the process
		return nil, fmt.Errorf("open %s: %w", path, ctx.Err())
	}
}
