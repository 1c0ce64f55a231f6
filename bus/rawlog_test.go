package bus_test

import (
	"context"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"syscall"
	"testing"

	"go.uber.org/zap"

	"github.com/nats-io/nats-server/v2/server"

	"github.com/linesman/linesman/bus"
	"github.com/linesman/linesman/runs"
	"github.com/linesman/linesman/test/fixture"
	"github.com/linesman/linesman/test/fixture/bustest"
	"github.com/linesman/linesman/worker"
)

// The test binary is itself the worker in tests that kill one.
func TestMain(m *testing.M) {
	url := os.Getenv("BUS_WORKER_OF")
	if url == "" {
		os.Exit(m.Run())
	}
	if err := mortalWorker(context.Background(), url, os.Getenv("BUS_WORKER_ROOT")); err != nil {
		fmt.Fprintln(os.Stderr, err)
		os.Exit(1)
	}
}

// mortalWorker owns the run "a", whose output is its stdin, and is killed before it
// stores a second start entry.
func mortalWorker(ctx context.Context, url, root string) error {
	b, err := bus.Connect(bus.WithPatience(ctx, fixture.Patience/2), bus.Login{URL: url}, bus.Login{}, bustest.Names,
		zap.NewNop())
	if err != nil {
		return err
	}
	defer b.Close()
	starts := 0
	w, err := worker.New(worker.Config{Root: root, Name: "here", Logs: workerLogs{b, func(e runs.Entry) {
		if e.Kind == runs.Started {
			starts++
		}
		if starts == 2 {
			_ = syscall.Kill(os.Getpid(), syscall.SIGKILL)
			select {}
		}
	}}})
	if err != nil {
		return err
	}
	d, err := worker.Create(root, worker.Spec{Run: "a", Attributes: runs.Attributes{Agent: "codex"},
		Source: runs.SourcePipe})
	if err != nil {
		return err
	}
	done := make(chan error, 1)
	go func() { done <- worker.Pipe(ctx, os.Stdin, d) }()
	_, err = w.Run(d).Drive(ctx)
	return errors.Join(err, <-done)
}

// workerLogs wraps the logs of a worker, and reports each entry before it is appended.
type workerLogs struct {
	client *bus.Bus
	each   func(runs.Entry)
}

func (l workerLogs) Open(ctx context.Context, agent, run string, m runs.Mark) (worker.Log, error) {
	raw, err := l.client.OpenLog(ctx, agent, run, m)
	return workerLog{raw, l.each}, err
}

type workerLog struct {
	*bus.RawLog
	each func(runs.Entry)
}

func (l workerLog) Append(ctx context.Context, e runs.Entry) error {
	l.each(e)
	return l.RawLog.Append(ctx, e)
}

// RAW was lost and recreated, and RUNS was not. The worker has detected that, and is
// killed before the new RAW has its start entry: the next worker must not take the
// record of the former RAW for a log that has expired. The run starts again in the new
// RAW, with all of its output.
func TestWorkerKilledOnceItSawThatRawWasLostBeginsAgain(t *testing.T) {
	t.Parallel()
	url, root := bustest.ServePlain(t, server.Options{}), filepath.Join(t.TempDir(), "runs")
	b, err := bus.Connect(bustest.Patient(t), bus.Login{URL: url}, bus.Login{}, bustest.Names, zap.NewNop())
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(b.Close)
	limits := bus.DefaultLimits()
	limits.RawBytes, limits.EventsBytes, limits.RunsBytes = 1<<28, 1<<28, 1<<26
	if _, err := b.Ensure(t.Context(), limits); err != nil {
		t.Fatal(err)
	}
	cmd := exec.CommandContext(t.Context(), os.Args[0])
	cmd.Env = append(os.Environ(), "BUS_WORKER_OF="+url, "BUS_WORKER_ROOT="+root)
	cmd.Stderr = os.Stderr
	stdin, err := cmd.StdinPipe()
	if err == nil {
		err = cmd.Start()
	}
	if err != nil {
		t.Fatal(err)
	}
	const first, second = "{\"type\":\"turn.started\"}\n", "{\"type\":\"turn.completed\"}\n"
	say := func(line string) {
		if _, err := io.WriteString(stdin, line); err != nil {
			t.Error(err)
		}
	}
	say(first)
	bustest.Until(
		t,
		"the first line is not in RAW",
		func() bool { return bustest.LastSeq(t, b.JetStream(), b.Raw()) == 2 },
	)
	normalize(t, b)
	if r, _, err := b.Record(t.Context(), "a"); err != nil || r.Source != runs.SourcePipe {
		t.Fatalf("the record is %+v, %v", r, err)
	}
	bustest.Remake(t, b, b.JetStream(), b.Raw())
	say(second)
	var exit *exec.ExitError
	if err := cmd.Wait(); !errors.As(err, &exit) || exit.Sys().(syscall.WaitStatus).Signal() != syscall.SIGKILL {
		t.Fatalf("the worker was to be killed: %v", err)
	}

	next, err := worker.New(worker.Config{Root: root, Name: "here", Logs: workerLogs{b, func(runs.Entry) {}}})
	if err != nil {
		t.Fatal(err)
	}
	ctx, cancel := context.WithCancel(t.Context())
	done := make(chan error, 1)
	go func() { done <- next.Adopt(ctx) }()
	bustest.Until(t, "the run does not end", func() bool {
		_, err := os.Stat(filepath.Join(root, "a"))
		return errors.Is(err, fs.ErrNotExist)
	})
	cancel()
	if err := <-done; err != nil {
		t.Error(err)
	}

	var kinds []runs.Kind
	var output []byte
	l, err := b.OpenLog(t.Context(), "codex", "a", runs.Mark{})
	if err != nil {
		t.Fatal(err)
	}
	raw, err := b.JetStream().Stream(t.Context(), b.Raw())
	if err != nil {
		t.Fatal(err)
	}
	for seq := uint64(1); seq <= l.Mark().Seq; seq++ {
		m, err := raw.GetMsg(t.Context(), seq)
		if err != nil {
			t.Fatal(err)
		}
		e, _ := bus.DecodeEntry(m.Header, m.Data)
		kinds = append(kinds, e.Kind)
		if e.Kind == runs.Out && e.Offset == int64(len(output)) {
			output = append(output, e.Body...)
		}
	}
	if len(kinds) == 0 || kinds[0] != runs.Started || kinds[len(kinds)-1] != runs.Exited ||
		slices.Contains(kinds[1:], runs.Started) ||
		string(output) != first+second {
		t.Errorf("the new RAW has %q, and the output %q", kinds, output)
	}
}
