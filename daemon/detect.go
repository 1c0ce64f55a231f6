package daemon

import (
	"bufio"
	"bytes"
	"cmp"
	"errors"
	"fmt"
	"io"

	"github.com/linesman/linesman/agent"
	"github.com/linesman/linesman/worker"
)

// Limits of what is read to find out which agent printed an input.
const (
	maxDetectLines = 16
	maxDetectLine  = 1 << 20 // bytes
)

// errUndetected reports that the first lines of an input are not of one agent alone.
var errUndetected = errors.New("its first lines do not tell which agent printed it: name the agent with --agent")

var errEmpty = fmt.Errorf("it is empty, so %w", errUndetected)

// errAgents reports files of several agents.
var errAgents = errors.New("files of several agents: give those of one agent at a time")

// Detect returns the agent that printed an input, by its first lines, and a reader of the
// whole input. It reads as few lines as are needed. With paths it reads those files in the
// place of input; of several, one that is empty or cannot be read tells nothing. The error is
// [errUndetected] if the first 16 lines, or all there are, are not of one agent alone, and
// [errAgents] if the files are of several agents.
func Detect(input io.Reader, table agent.Table, paths ...string) (found agent.Agent, whole io.Reader, err error) {
	if len(paths) == 0 {
		return detect(input, table)
	}
	first := ""   // file of the agent that was found
	var why error // why the first of the others tells nothing
	for _, path := range paths {
		a, err := detectFile(path, table)
		switch {
		case err != nil && errors.Is(err, errUndetected) && !errors.Is(err, errEmpty):
			return found, nil, fmt.Errorf("%s: %w", path, err)
		case err != nil:
			why = cmp.Or(why, fmt.Errorf("%s: %w", path, err))
		case first == "":
			first, found = path, a
		case a.Kind() != found.Kind():
			return found, nil, fmt.Errorf("%w: %s of %s, %s of %s", errAgents, first, found.Name, path, a.Name)
		}
	}
	if first == "" {
		return found, nil, why
	}
	return found, nil, nil
}

func detectFile(path string, table agent.Table) (agent.Agent, error) {
	f, err := worker.OpenLog(path)
	if err != nil {
		return agent.Agent{}, err
	}
	defer f.Close()
	a, _, err := detect(f, table)
	return a, err
}

func detect(input io.Reader, table agent.Table) (agent.Agent, io.Reader, error) {
	in := bufio.NewReaderSize(input, maxDetectLine)
	var seen []byte
	var lines [][]byte
	for range maxDetectLines {
		line, err := in.ReadSlice('\n')
		seen = append(seen, line...)
		if line := bytes.TrimSpace(line); len(line) > 0 {
			lines = append(lines, bytes.Clone(line))
		}
		if a, ok := table.Detect(lines); ok {
			rest, _ := in.Peek(in.Buffered()) // what is buffered
			return a, worker.Unread(append(seen, rest...), input), nil
		}
		if err != nil && !errors.Is(err, io.EOF) && !errors.Is(err, bufio.ErrBufferFull) {
			return agent.Agent{}, nil, err
		}
		if err != nil {
			break
		}
	}
	if len(lines) == 0 {
		return agent.Agent{}, nil, errEmpty
	}
	return agent.Agent{}, nil, errUndetected
}
