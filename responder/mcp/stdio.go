package mcp

import (
	"bufio"
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"sync"
	"time"

	"github.com/modelcontextprotocol/go-sdk/jsonrpc"
	sdk "github.com/modelcontextprotocol/go-sdk/mcp"
)

const (
	// lastAnswers is how long calls may continue after the input has ended: long
	// enough for the answers to a script that pipes its requests, and short
	// enough for a client that closes stdin to end the server.
	lastAnswers = 5 * time.Second

	// maxOpen bounds the calls that were read and not answered. Tools refuse
	// calls before it is reached, so at the bound the client does not read its
	// answers, and no further call is read.
	maxOpen = 2 * MaxCalls
)

// ServeStdio serves one client: a JSON-RPC message per line, on in and out. It
// returns nil when in or ctx ends; calls in progress are cancelled immediately
// when ctx ends, and after five seconds when in ends. A line that is not a
// message, or is longer than [maxMessage], is answered with an error under the
// id of its request, if that can be read, and reading continues. A Read or
// Write that still blocks five seconds after the end of ctx is abandoned,
// because only the end of the process can interrupt it.
func ServeStdio(ctx context.Context, server *sdk.Server, in io.Reader, out io.Writer) error {
	session, err := server.Connect(ctx, newStdio(in, out, ctx.Done()), nil)
	if err != nil {
		return fmt.Errorf("serve stdio: %w", err)
	}
	done := make(chan error, 1)
	go func() { done <- session.Wait() }()
	stop, late := ctx.Done(), (<-chan time.Time)(nil)
	for {
		select {
		case err := <-done:
			if err != nil && ctx.Err() == nil {
				return fmt.Errorf("serve stdio: %w", err)
			}
			return nil
		case <-stop:
			timer := time.NewTimer(lastAnswers)
			defer timer.Stop()
			stop, late = nil, timer.C
		case <-late:
			return errors.New("serve stdio: the client does not take its answers")
		}
	}
}

// stdio is the transport, and its one connection.
type stdio struct {
	in    io.Reader
	lines chan line
	stop  <-chan struct{} // the end of ServeStdio's context

	writing sync.Mutex
	out     io.Writer

	mu       sync.Mutex
	open     map[jsonrpc.ID]bool // unanswered calls; true: cancelled, so not to be answered
	answered chan struct{}       // signals that open has shrunk

	once   sync.Once
	closed chan struct{}
}

func newStdio(in io.Reader, out io.Writer, stop <-chan struct{}) *stdio {
	return &stdio{
		in: in, lines: make(chan line), stop: stop, out: out,
		open: make(map[jsonrpc.ID]bool), answered: make(chan struct{}, 1), closed: make(chan struct{}),
	}
}

// line is a line of the input. The text is nil if it was too long: then the
// scanner has its id.
type line struct {
	text []byte
	long *idScanner
	err  error
}

// Connect starts reading.
func (c *stdio) Connect(context.Context) (sdk.Connection, error) {
	go c.scan()
	return c, nil
}

// SessionID is empty: there is one client.
func (c *stdio) SessionID() string { return "" }

// scan reads lines until the input ends. It runs in its own goroutine because a
// Read cannot be interrupted.
func (c *stdio) scan() {
	r := bufio.NewReaderSize(c.in, 64<<10)
	for {
		text, long, err := readLine(r)
		select {
		case c.lines <- line{text, long, err}:
		case <-c.closed:
			return
		}
		if err != nil {
			return
		}
	}
}

// Read returns the next message, and io.EOF when the client or linesman ends.
func (c *stdio) Read(context.Context) (jsonrpc.Message, error) {
	for {
		var l line
		select {
		case <-c.stop:
			return nil, io.EOF
		case <-c.closed:
			return nil, io.EOF
		case l = <-c.lines:
		}
		if l.err != nil {
			timer := time.NewTimer(lastAnswers)
			defer timer.Stop()
			c.await(0, timer.C)
			if errors.Is(l.err, io.EOF) {
				return nil, io.EOF
			}
			return nil, fmt.Errorf("read: %w", l.err)
		}
		found := l.long
		if found == nil {
			found = new(idScanner)
			_, _ = found.Write(l.text)
		}
		msg, wrong := decode(l.text)
		if wrong == nil {
			wrong = found.check(l.text)
		}
		if wrong != nil {
			if err := c.refuse(found, wrong); err != nil {
				return nil, err
			}
			continue
		}
		if msg == nil {
			continue
		}
		if req, ok := msg.(*jsonrpc.Request); ok && req.IsCall() {
			c.await(maxOpen-1, nil)
			c.mu.Lock()
			c.open[req.ID] = false
			c.mu.Unlock()
		} else if ok && req.Method == "notifications/cancelled" && !c.cancelled(req.Params) {
			continue // the library cancels later, and might cancel the next call
		}
		return msg, nil
	}
}

// cancelled marks a call as not to be answered, as the protocol requires:
// clients may mistake its answer for an unsolicited one. It reports whether
// there is such a call.
func (c *stdio) cancelled(params json.RawMessage) bool {
	var p struct {
		ID any `json:"requestId"`
	}
	if json.Unmarshal(params, &p) != nil {
		return false
	}
	id, err := jsonrpc.MakeID(p.ID)
	if err != nil {
		return false
	}
	c.mu.Lock()
	defer c.mu.Unlock()
	if _, ok := c.open[id]; !ok {
		return false
	}
	c.open[id] = true
	return true
}

// await waits until at most n calls are open, or until the timeout or the end.
func (c *stdio) await(most int, late <-chan time.Time) {
	for {
		c.mu.Lock()
		open := len(c.open)
		c.mu.Unlock()
		if open <= most {
			return
		}
		select {
		case <-c.answered:
		case <-late:
			return
		case <-c.stop:
			return
		case <-c.closed:
			return
		}
	}
}

// Write writes one message, unless it answers a cancelled call.
func (c *stdio) Write(_ context.Context, msg jsonrpc.Message) error {
	b, err := jsonrpc.EncodeMessage(msg)
	if err != nil {
		return fmt.Errorf("encode: %w", err)
	}
	res, ok := msg.(*jsonrpc.Response)
	c.mu.Lock()
	unwanted := ok && c.open[res.ID]
	c.mu.Unlock()
	if !unwanted {
		err = c.print(b)
	}
	if ok {
		c.mu.Lock()
		delete(c.open, res.ID)
		c.mu.Unlock()
		select {
		case c.answered <- struct{}{}:
		default:
		}
	}
	return err
}

// Close ends Read. The caller owns in and out.
func (c *stdio) Close() error {
	c.once.Do(func() { close(c.closed) })
	return nil
}

func (c *stdio) print(b []byte) error {
	c.writing.Lock()
	defer c.writing.Unlock()
	if _, err := c.out.Write(append(b, '\n')); err != nil {
		return fmt.Errorf("write: %w", err)
	}
	return nil
}

// refuse answers a line that is not a message, unless it is a notification or a
// response. MCP has no null id: if no id can be read the answer has none.
func (c *stdio) refuse(found *idScanner, e *jsonrpc.Error) error {
	id, wanted := found.answer()
	if !wanted {
		return nil
	}
	b, err := json.Marshal(refusal{"2.0", id, e})
	if err != nil {
		return fmt.Errorf("encode: %w", err)
	}
	return c.print(b)
}

// refusal is an error from before the protocol layer.
type refusal struct {
	Version string          `json:"jsonrpc"`
	ID      json.RawMessage `json:"id,omitempty"`
	Error   *jsonrpc.Error  `json:"error"`
}

// decode returns the message of a line, the error to answer it with, or
// neither for an empty line.
func decode(text []byte) (jsonrpc.Message, *jsonrpc.Error) {
	if text == nil {
		return nil, &jsonrpc.Error{Code: jsonrpc.CodeInvalidRequest, Message: fmt.Sprintf("line over %d bytes", maxMessage)}
	}
	text = bytes.TrimSpace(text)
	if len(text) == 0 {
		return nil, nil
	}
	if !json.Valid(text) {
		return nil, &jsonrpc.Error{Code: jsonrpc.CodeParseError, Message: "line is not JSON, or is nested too deeply"}
	}
	msg, err := jsonrpc.DecodeMessage(text)
	if err != nil {
		return nil, &jsonrpc.Error{Code: jsonrpc.CodeInvalidRequest,
			Message: "line is not one JSON-RPC message, or is nested too deeply"}
	}
	return msg, nil
}

// readLine reads one line; the last line may lack its newline. Of a line longer
// than MaxMessage only the answer's id is kept.
func readLine(r *bufio.Reader) ([]byte, *idScanner, error) {
	text, long := []byte{}, (*idScanner)(nil)
	for {
		part, err := r.ReadSlice('\n')
		switch {
		case long != nil:
			_, _ = long.Write(part)
		case len(text)+len(bytes.TrimSuffix(part, []byte("\n"))) > maxMessage:
			long = new(idScanner)
			_, _ = long.Write(text)
			_, _ = long.Write(part)
			text = nil
		default:
			text = append(text, part...)
		}
		switch {
		case errors.Is(err, bufio.ErrBufferFull):
			continue
		case errors.Is(err, io.EOF) && (len(text) > 0 || long != nil):
			err = nil
		case err != nil:
			return nil, nil, err
		}
		return text, long, err
	}
}
