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
	// lastAnswers is how long calls may go on once the input has ended. A
	// client that closes stdin wants the server gone; a script that pipes its
	// requests in wants the answers.
	lastAnswers = 5 * time.Second

	// maxOpen bounds the calls that were read and not answered. Tools refuse
	// before it is reached, so at the bound it is the client who does not take
	// its answers, and no more is read from it.
	maxOpen = 2 * maxCalls
)

// ServeStdio serves one client: a JSON-RPC message a line, on in and out. It
// returns nil when in ends or ctx does; at the end of ctx calls in flight are
// ended at once, at the end of in after five seconds. A line that is no
// message, or is longer than [MaxMessage], is answered with an error under the
// id of its request, where that can be read, and the next one is read. A Read or Write that still blocks five seconds after the
// end of ctx is left behind, for nothing but the end of the process ends it.
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
	open     map[jsonrpc.ID]bool // calls that were read and not answered; true: nobody wants the answer any more
	answered chan struct{}       // tells that open has shrunk

	once   sync.Once
	closed chan struct{}
}

func newStdio(in io.Reader, out io.Writer, stop <-chan struct{}) *stdio {
	return &stdio{
		in: in, lines: make(chan line), stop: stop, out: out,
		open: make(map[jsonrpc.ID]bool), answered: make(chan struct{}, 1), closed: make(chan struct{}),
	}
}

// line is a line as it was read. The text is nil when it was too long, and then
// there is what was found in it.
type line struct {
	text []byte
	long *idScanner
	err  error
}

// Connect starts to read.
func (c *stdio) Connect(context.Context) (sdk.Connection, error) {
	go c.scan()
	return c, nil
}

// SessionID is empty: there is one client.
func (c *stdio) SessionID() string { return "" }

// scan reads lines until the input ends. It is a goroutine of its own because
// a Read cannot be interrupted.
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
			continue // the library cancels a moment later, and could hit a call that comes next
		}
		return msg, nil
	}
}

// cancelled notes that a call is not to be answered: the protocol wants so, and
// clients take an answer for one that nobody asked for. It reports whether
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

// await waits until at most so many calls are open, or it is time, or the end.
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

// Write writes one message, unless it is the answer to a call that was
// cancelled.
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

// refuse answers a line that is no message, unless it is a notification or a
// response. MCP knows no null id: where none can be read the answer has none.
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

// refusal is an error that never reached the protocol.
type refusal struct {
	Version string          `json:"jsonrpc"`
	ID      json.RawMessage `json:"id,omitempty"`
	Error   *jsonrpc.Error  `json:"error"`
}

// decode returns the message of a line, the error to answer it with, or
// neither for an empty line.
func decode(text []byte) (jsonrpc.Message, *jsonrpc.Error) {
	if text == nil {
		return nil, &jsonrpc.Error{Code: jsonrpc.CodeInvalidRequest, Message: fmt.Sprintf("line over %d bytes", MaxMessage)}
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
		return nil, &jsonrpc.Error{Code: jsonrpc.CodeInvalidRequest, Message: "line is not one JSON-RPC message, or is nested too deeply"}
	}
	return msg, nil
}

// readLine reads to the end of a line, the last of which may lack its newline.
// Of one longer than MaxMessage only what answers it is kept.
func readLine(r *bufio.Reader) ([]byte, *idScanner, error) {
	text, long := []byte{}, (*idScanner)(nil)
	for {
		part, err := r.ReadSlice('\n')
		switch {
		case long != nil:
			_, _ = long.Write(part)
		case len(text)+len(bytes.TrimSuffix(part, []byte("\n"))) > MaxMessage:
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
