package rest_test

import (
	"bufio"
	"bytes"
	"fmt"
	"net"
	"net/http"
	"net/http/httptest"
	"os"
	"os/exec"
	"strconv"
	"strings"
	"sync"
	"sync/atomic"
	"syscall"
	"testing"
	"time"

	"github.com/linesman/linesman/runs"
	"github.com/linesman/linesman/test/fixture"
)

// What BenchmarkSSE writes: groups of lines.
const (
	benchGroup  = 20
	benchGroups = 200
	benchEvery  = 5 * time.Millisecond
)

// BenchmarkSSE writes 4,000 lines a second of a run, and measures the processor time of server, normalizer and
// responder for each event that a stream of all events, or of the run, delivers, without what the lines cost where
// there is no stream. "bare" is that of net/http for the same bytes to as many connections each 20 ms. The clients are
// another process.
func BenchmarkSSE(b *testing.B) {
	s := newStage(b, func(c *config) { c.rest.Held = 4096 })
	l := s.Begin("codex", "run", runs.Start{Source: "run"})
	line := fmt.Sprintf(`{"type":"item.completed","item":{"id":"item_0","type":"agent_message","text":"%0100d"}}`+"\n", 0)
	write := func(groups int) {
		tick := time.NewTicker(benchEvery)
		defer tick.Stop()
		for range groups {
			<-tick.C
			l.Out([]byte(strings.Repeat(line, benchGroup)))
		}
	}
	end := func() uint64 {
		end, err := s.Bus.EventsEnd(b.Context(), "", "")
		if err != nil {
			b.Fatal(err)
		}
		return end.Last
	}
	write(1)
	fixture.Eventually(b, fixture.Patience, "the first events are not stored", func() bool { return end() == benchGroup })
	for _, name := range []string{"all", "run"} {
		path := map[string]string{"all": "/v1/events", "run": "/v1/runs/run/events"}[name]
		for _, streams := range []int{10, 100, 1000} {
			b.Run(fmt.Sprintf("%s/%d", name, streams), func(b *testing.B) {
				const events = benchGroups * benchGroup
				var lines, all, bare time.Duration
				for b.Loop() {
					last, before := end(), cpuTime(b)
					write(benchGroups)
					fixture.Eventually(b, fixture.Patience, "the events are not stored", func() bool { return end() >= last+events })
					lines += cpuTime(b) - before

					c := connect(b, s.url, fmt.Sprintf("%s?after=%d", path, last+events), streams)
					write(10) // all of them follow
					c.receive(b, 10*benchGroup)
					before = cpuTime(b)
					write(benchGroups)
					size := c.receive(b, events) / events / streams
					all += cpuTime(b) - before
					c.close()

					bare += bareStreams(b, streams, events, size)
				}
				n := float64(b.N * streams * events)
				b.ReportMetric(float64((all-lines).Nanoseconds())/n/1e3, "us/delivery")
				b.ReportMetric(float64(bare.Nanoseconds())/n/1e3, "bare-us/delivery")
				b.ReportMetric(float64(all-lines)/float64(bare), "x-bare")
				b.ReportMetric(float64(lines.Nanoseconds())/float64(b.N*events)/1e3, "us/line")
				b.ReportMetric(0, "ns/op")
			})
		}
	}
}

// bareStreams returns the processor time of net/http for events of a size to a number of streams.
func bareStreams(b *testing.B, streams, events, size int) time.Duration {
	const tick = 20 * time.Millisecond
	event := append(bytes.Repeat([]byte("x"), size-8), "\ndata: \n"...)
	group := bytes.Repeat(event, benchGroup*int(tick/benchEvery))
	var mu sync.Mutex
	groups, next := 0, make(chan struct{})
	server := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		control := http.NewResponseController(w)
		_, _ = w.Write([]byte("\n"))
		for written := 0; control.Flush() == nil; written++ {
			for {
				mu.Lock()
				more, have := next, groups
				mu.Unlock()
				if have > written {
					break
				}
				select {
				case <-r.Context().Done():
					return
				case <-more:
				}
			}
			_, _ = w.Write(group)
		}
	}))
	defer server.Close()
	c := connect(b, server.URL, "/", streams)
	defer c.close()
	each := time.NewTicker(tick)
	defer each.Stop()
	before := cpuTime(b)
	for range events * size / len(group) {
		<-each.C
		mu.Lock()
		groups++
		close(next)
		next = make(chan struct{})
		mu.Unlock()
	}
	c.receive(b, events)
	return cpuTime(b) - before
}

// cpuTime is the processor time of this process.
func cpuTime(t testing.TB) time.Duration {
	t.Helper()
	var u syscall.Rusage
	if err := syscall.Getrusage(syscall.RUSAGE_SELF, &u); err != nil {
		t.Fatal(err)
	}
	return time.Duration(u.Utime.Nano() + u.Stime.Nano())
}

// clients are streams that another process reads.
type clients struct {
	command *exec.Cmd
	stdin   interface{ Close() error }
	ask     *bufio.ReadWriter
}

// connect opens a number of streams.
func connect(b *testing.B, url, path string, streams int) *clients {
	b.Helper()
	c := &clients{command: exec.Command(os.Args[0])}
	c.command.Env = append(os.Environ(), "TEST_STREAMS="+strconv.Itoa(streams), "TEST_URL="+url, "TEST_PATH="+path)
	c.command.Stderr = os.Stderr
	in, err := c.command.StdinPipe()
	if err != nil {
		b.Fatal(err)
	}
	out, err := c.command.StdoutPipe()
	if err != nil {
		b.Fatal(err)
	}
	if err := c.command.Start(); err != nil {
		b.Fatal(err)
	}
	c.stdin, c.ask = in, bufio.NewReadWriter(bufio.NewReader(out), bufio.NewWriter(in))
	c.receive(b, 0)
	return c
}

// receive waits until each stream has so many more events, and returns the bytes of all.
func (c *clients) receive(b *testing.B, events int) (size int) {
	b.Helper()
	_, _ = fmt.Fprintln(c.ask, events)
	_ = c.ask.Flush()
	if _, err := fmt.Fscanln(c.ask, &size); err != nil {
		b.Fatal("the clients: ", err)
	}
	return size
}

func (c *clients) close() {
	_ = c.stdin.Close()
	_ = c.command.Wait()
}

// readStreams is the process of [clients].
func readStreams() error {
	n, err := strconv.Atoi(os.Getenv("TEST_STREAMS"))
	if err != nil {
		return err
	}
	var size atomic.Int64
	got := make([]atomic.Int64, n)
	failed := make(chan error, n)
	for i := range n {
		c, err := net.Dial("tcp", strings.TrimPrefix(os.Getenv("TEST_URL"), "http://"))
		if err != nil {
			return err
		}
		if _, err := fmt.Fprintf(c, "GET %s HTTP/1.1\r\nHost: localhost\r\nAuthorization: Bearer %s\r\nAccept: "+
			"text/event-stream\r\n\r\n", os.Getenv("TEST_PATH"), token); err != nil {
			return err
		}
		buf := make([]byte, 64<<10)
		k, err := c.Read(buf)
		if err != nil || !bytes.HasPrefix(buf[:k], []byte("HTTP/1.1 200")) {
			return fmt.Errorf("stream %d: %w: %s", i, err, buf[:k])
		}
		mark := []byte("\ndata: ")
		got[i].Add(int64(bytes.Count(buf[:k], mark)))
		go func() {
			kept := 0
			for {
				k, err := c.Read(buf[kept:])
				if err != nil {
					failed <- fmt.Errorf("stream %d: %w", i, err)
					return
				}
				size.Add(int64(k))
				all := buf[:kept+k]
				got[i].Add(int64(bytes.Count(all, mark)))
				kept = copy(buf, all[max(len(all)-len(mark)+1, 0):])
			}
		}()
	}
	for want, before := int64(0), int64(0); ; {
		var more int64
		if _, err := fmt.Scanln(&more); err != nil {
			return nil
		}
		want += more
		for i := range got {
			for end := time.Now().Add(time.Minute); got[i].Load() < want; time.Sleep(2 * time.Millisecond) {
				select {
				case err := <-failed:
					return err
				default:
				}
				if time.Now().After(end) {
					return fmt.Errorf("stream %d has %d of %d events", i, got[i].Load(), want)
				}
			}
		}
		fmt.Println(size.Load() - before)
		before = size.Load()
	}
}
