package watch

import (
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"os/exec"
	"slices"
	"syscall"
	"time"

	"github.com/linesman/linesman/cmd/console"
	"github.com/linesman/linesman/internal/delivery"
	"github.com/linesman/linesman/responder/webhook"
)

// sink delivers notices. Deliver may be called from several goroutines. An error says in
// general why a notice was not accepted, and quotes nothing of it; a [delivery.Refusal] has more.
type sink interface {
	Deliver(ctx context.Context, n notice) error
}

// printer prints notices: a line for people, or one of JSON.
type printer struct {
	Out  io.Writer
	JSON bool
}

// Deliver implements [sink].
func (p printer) Deliver(_ context.Context, n notice) error {
	if p.JSON {
		return console.PrintJSON(p.Out, n)
	}
	_, err := fmt.Fprintf(p.Out, "%s %s\n", at(n.Time).Format(time.DateTime), console.Safe(n.Text))
	return err
}

// commandSink runs a command for each notice, which gets it as JSON on its stdin, and its most
// important fields in the environment. Nothing of a notice is in the text of the command.
type commandSink struct {
	Line           string   // for /bin/sh -c
	Environ        []string // as [os.Environ]
	Stdout, Stderr io.Writer
	Timeout        time.Duration // default 30 s
}

// Limits of a command.
const (
	commandTime = 30 * time.Second // until it gets a SIGTERM
	commandStop = 2 * time.Second  // from that until it is killed
)

// Deliver implements [sink]. A notice is delivered when the command exits with 0.
func (c *commandSink) Deliver(ctx context.Context, n notice) error {
	body, err := json.Marshal(n)
	if err != nil {
		return &delivery.Refusal{Why: "the notice cannot be encoded", Final: true}
	}
	limit := c.Timeout
	if limit == 0 {
		limit = commandTime
	}
	ctx, cancel := context.WithTimeout(ctx, limit)
	defer cancel()
	cmd := exec.CommandContext(ctx, "/bin/sh", "-c", c.Line)
	cmd.Stdin, cmd.Stdout, cmd.Stderr = bytes.NewReader(append(body, '\n')), c.Stdout, c.Stderr
	cmd.Env = append(slices.Clone(c.Environ),
		"LINESMAN_NOTICE="+string(n.Kind), "LINESMAN_NOTICE_ID="+n.ID, "LINESMAN_NOTICE_TEXT="+n.Text, "LINESMAN_RUN="+n.Run)
	cmd.SysProcAttr = &syscall.SysProcAttr{Setpgid: true} // what the command starts is ended with it
	cmd.Cancel = func() error { return syscall.Kill(-cmd.Process.Pid, syscall.SIGTERM) }
	cmd.WaitDelay = commandStop
	err = cmd.Run()
	if ctx.Err() != nil && cmd.Process != nil {
		_ = syscall.Kill(-cmd.Process.Pid, syscall.SIGKILL) // fails where nothing of it is left
		return &delivery.Refusal{Why: "the command did not end in time"}
	}
	var exit *exec.ExitError
	switch {
	case err == nil, errors.Is(err, exec.ErrWaitDelay): // what it left in the background has its stdout
		return nil
	case errors.As(err, &exit) && exit.Exited():
		return &delivery.Refusal{Why: fmt.Sprintf("the command ended with exit status %d", exit.ExitCode())}
	case errors.As(err, &exit):
		return &delivery.Refusal{Why: "a signal ended the command"}
	case cmd.ProcessState != nil && cmd.ProcessState.Success(): // it did not read its stdin to the end
		return nil
	}
	return &delivery.Refusal{Why: "the command cannot be started"}
}

// webhookSink posts notices as JSON, as webhooks of tasks are posted.
type webhookSink struct{ Receiver *webhook.Receiver }

// Deliver implements [sink].
func (w webhookSink) Deliver(ctx context.Context, n notice) error {
	body, err := json.Marshal(n)
	if err != nil {
		return &delivery.Refusal{Why: "the notice cannot be encoded", Final: true}
	}
	return w.Receiver.Post(ctx, "application/json", body)
}
