package chaos

import (
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"strconv"
	"strings"
)

// Journal is what the program in ./agent kept of itself, in one directory.
type Journal struct {
	Out, Err Written
	In       []byte // the lines that a live one has accepted
	Starts   int
	PID      int  // of the last start; 0: none
	Code     *int // how it said it would exit
	Marks    []string
}

// ReadJournal reads the journal of an agent, which may still be writing to it.
// One that never came so far has an empty one.
func ReadJournal(dir string) (Journal, error) {
	var j Journal
	marks, err := read0(dir, "marks")
	if err != nil {
		return j, err
	}
	for line := range strings.Lines(string(marks)) {
		line, whole := strings.CutSuffix(line, "\n")
		if !whole { // killed in the middle of it
			break
		}
		j.Marks = append(j.Marks, line)
		word, value, _ := strings.Cut(line, " ")
		n, err := strconv.Atoi(value)
		if err != nil && value != "" {
			return j, fmt.Errorf("journal %s: mark %q", filepath.Base(dir), line)
		}
		switch word {
		case "start":
			j.Starts++
			j.PID = n
		case "out":
			j.Out.Sure = n
		case "err":
			j.Err.Sure = n
		case "end":
			j.Code = &n
		}
	}
	if j.Out.Bytes, err = read0(dir, "out"); err != nil {
		return j, err
	}
	if j.Err.Bytes, err = read0(dir, "err"); err != nil {
		return j, err
	}
	j.In, err = read0(dir, "in")
	return j, err
}

func read0(dir, name string) ([]byte, error) {
	b, err := os.ReadFile(filepath.Join(dir, name))
	if errors.Is(err, fs.ErrNotExist) {
		return nil, nil
	}
	if err != nil {
		return nil, fmt.Errorf("journal %s: %w", filepath.Base(dir), err)
	}
	return b, nil
}

// Agent is what the journal says of the agent of a run.
func (j Journal) Agent(run string) Agent {
	return Agent{Run: run, Out: j.Out, Err: j.Err, In: j.In, Starts: j.Starts, Code: j.Code}
}
