package e2e

import (
	"bufio"
	"fmt"
	"os"
	"os/exec"
	"slices"
	"strings"
	"sync"
	"testing"

	"github.com/linesman/linesman/test/fixture"
)

const webhookSecret = fixture.Sentinel + "that-only-the-receiver-knows"

// webhook is the example receiver, and what it printed.
type webhook struct {
	t       *testing.T
	program string
	address string
	cmd     *exec.Cmd
	read    chan struct{} // all that it printed

	mu   sync.Mutex
	said []string
}

func newWebhook(t *testing.T) *webhook {
	t.Helper()
	w := &webhook{t: t, program: built(t, "webhook"), address: fixture.FreeAddresses(t, 1)[0]}
	t.Cleanup(w.kill)
	return w
}

func (w *webhook) start() {
	w.t.Helper()
	w.cmd = exec.Command(w.program, w.address)
	w.cmd.Env = append(os.Environ(), "WEBHOOK_SECRET="+webhookSecret)
	out, err := w.cmd.StdoutPipe()
	if err == nil {
		err = w.cmd.Start()
	}
	if err != nil {
		w.t.Fatal(err)
	}
	w.read = make(chan struct{})
	go func() {
		defer close(w.read)
		for lines := bufio.NewScanner(out); lines.Scan(); {
			w.mu.Lock()
			w.said = append(w.said, lines.Text())
			w.mu.Unlock()
		}
	}()
}

func (w *webhook) kill() {
	if w.cmd == nil {
		return
	}
	_ = w.cmd.Process.Kill()
	<-w.read
	_ = w.cmd.Wait()
	w.cmd = nil
}

// told waits until the receiver has printed that a run has come to a state.
func (w *webhook) told(run, status string) {
	w.t.Helper()
	want := fmt.Sprintf("%q %q ", run, status)
	var said []string
	if !fixture.Poll(fixture.Patience, func() bool {
		w.mu.Lock()
		defer w.mu.Unlock()
		said = slices.Clone(w.said)
		return slices.ContainsFunc(said, func(line string) bool { return strings.HasPrefix(line, want) })
	}) {
		w.t.Fatalf("%s is not told; told is\n%s", want, strings.Join(said, "\n"))
	}
}

// submit submits a task that the receiver is told of.
func (w *webhook) submit(d *daemon, prompt string) (run string) {
	w.t.Helper()
	ack := d.ask("_codex_local_exec", map[string]any{
		"format": "adcp", "task": prompt, "workingDir": d.dirs[prompt], "skipGitRepoCheck": true,
		"idempotency_key": fixture.Sentinel + "webhook-" + prompt,
		"push_notification_config": map[string]any{
			"url": "http://" + w.address + "/" + fixture.Sentinel + "hook", "operation_id": "op:" + fixture.Sentinel + prompt,
			"authentication": map[string]any{"schemes": []string{"HMAC-SHA256"}, "credentials": webhookSecret},
		},
	})
	if run = ack.Get("task_id").String(); ack.Get("status").String() != "submitted" || run == "" {
		w.t.Fatalf("not submitted: %s", ack.Raw)
	}
	return run
}

func TestRealCodexTellsTheExampleReceiver(t *testing.T) {
	fixture.Long(t, "starts a real agent beside an example")
	t.Setenv("LINESMAN_PUSH_ALLOW_PRIVATE", "true")
	d := newDaemon(t, 2, "go=hello", "sleep=shell-sleep")
	w := newWebhook(t)
	w.start()
	done, slow := w.submit(d, "go"), w.submit(d, "sleep")
	w.told(slow, "working")
	w.told(done, "completed")
	d.ask("_codex_local_cancel", map[string]any{"task_id": slow})
	w.told(slow, "canceled")
	w.mu.Lock()
	defer w.mu.Unlock()
	if sorted := slices.Sorted(slices.Values(w.said)); len(slices.Compact(sorted)) != len(w.said) {
		t.Errorf("something was told twice:\n%s", strings.Join(w.said, "\n"))
	}
}

// What ended while the receiver was away, and before a kill of everything, is
// told when both are back.
func TestNotificationsOutliveAKillOfUpAndAReceiverThatIsAway(t *testing.T) {
	t.Setenv("LINESMAN_PUSH_ALLOW_PRIVATE", "true")
	d := newDaemon(t, 2, "go=hello")
	w := newWebhook(t)
	run := w.submit(d, "go")
	if got := d.ask("_codex_local_wait", map[string]any{"task_id": run, "timeout_sec": 60}); got.Get(
		"data.state").String() != "completed" {
		t.Fatalf("the run: %s", got.Raw)
	}
	d.up.Kill()
	w.start()
	up(t, d.data)
	w.told(run, "completed")
}
