package cells

import (
	"bytes"
	"context"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strconv"
	"strings"
	"sync/atomic"
	"testing"
	"time"

	"github.com/nats-io/nats.go"
	"github.com/nats-io/nats.go/jetstream"
	"github.com/synadia-io/orbit.go/jetstreamext"

	"github.com/linesman/linesman/bus/embedded"
	"github.com/linesman/linesman/runs"
	"github.com/linesman/linesman/test/bench/corpus"
	"github.com/linesman/linesman/test/fixture"
)

// Lines and concurrent runs of one measurement.
const benchLines, benchRuns = 400_000, 4

// plant is a cell with a normalizer only, on servers of its own, and what it is measured
// with.
type plant struct {
	*cell
	b      *testing.B
	public jetstream.JetStream
	rates  map[string][]float64
	cpu    map[string][]float64 // microseconds a line
	disk   map[string][]float64 // bytes a line that the servers write to files
	name   string
}

// newPlant starts one. procs is GOMAXPROCS of the normalizer; 0: that of the machine.
func newPlant(b *testing.B, name string, size, procs int) *plant {
	b.Helper()
	c := newCluster(b, size)
	s := newCell(c, "alpha")
	cmd := exec.Command(program, s.arguments("normalizer")...)
	cmd.Dir = s.dir
	if procs > 0 {
		cmd.Env = append(os.Environ(), "GOMAXPROCS="+strconv.Itoa(procs))
	}
	p := fixture.StartAsIs(b, cmd)
	p.AwaitEither("normalizer reading")
	s.roles["normalizer"] = p
	return &plant{s, b, c.connect("alpha", embedded.OperatorUser+"_public"), map[string][]float64{},
		map[string][]float64{}, map[string][]float64{}, name}
}

// measure runs do and notes its rate, and the CPU time that each process took.
func (p *plant) measure(what string, lines int, do func() time.Duration) {
	pids := map[string][]int{"normalizer": {p.roles["normalizer"].Cmd.Process.Pid}}
	for _, n := range p.c.nodes {
		pids["server"] = append(pids["server"], n.cmd.Process.Pid)
	}
	before, written := map[string]time.Duration{}, diskBytes(p.b, pids["server"])
	for name, pids := range pids {
		before[name] = cpuTime(p.b, pids...)
	}
	began := time.Now()
	own := do()
	took := time.Since(began)
	p.rates[what] = append(p.rates[what], float64(lines)/took.Seconds())
	per := func(d time.Duration) float64 { return float64(d.Microseconds()) / float64(lines) }
	for name, pids := range pids {
		p.cpu[what+" "+name] = append(p.cpu[what+" "+name], per(cpuTime(p.b, pids...)-before[name]))
	}
	p.cpu[what+" worker"] = append(p.cpu[what+" worker"], per(own))
	disk := (diskBytes(p.b, pids["server"]) - written) / float64(lines)
	p.disk[what] = append(p.disk[what], disk)
}

// tail imports files of a corpus with `linesman tail --once`, and returns its CPU time once
// all events are stored.
func (p *plant) tail(files []string) time.Duration {
	p.b.Helper()
	before := p.completions()
	cmd := exec.Command(program, append([]string{"tail", "--once", "--again", "--config", p.config(), "--data-dir",
		p.b.TempDir()}, files...)...)
	fixture.Watch(p.b, cmd)
	if err := cmd.Run(); err != nil {
		p.b.Fatalf("%v: %v", cmd.Args, err)
	}
	fixture.Eventually(p.b, patience, "not all is stored", func() bool { return p.completions() >= before+len(files) })
	return cmd.ProcessState.UserTime() + cmd.ProcessState.SystemTime()
}

// completions counts the ended runs in EVENTS.
func (p *plant) completions() int {
	p.b.Helper()
	ctx, cancel := context.WithTimeout(p.b.Context(), 10*time.Second)
	defer cancel()
	s, err := p.public.Stream(ctx, "ALPHA_EVENTS")
	if err != nil {
		p.b.Fatal(err)
	}
	info, err := s.Info(ctx, jetstream.WithSubjectFilter("alpha.events.*.*.completion"))
	if err != nil {
		p.b.Fatal(err)
	}
	return len(info.State.Subjects)
}

// bare publishes messages of 330 bytes by fast ingest, and does nothing else. Like EVENTS,
// the stream copies each message to another subject.
func (p *plant) bare(lines int) time.Duration {
	p.b.Helper()
	_, err := p.public.CreateStream(p.b.Context(), jetstream.StreamConfig{Name: "BARE", Subjects: []string{"bare.>"},
		AllowBatchPublish: true, Replicas: len(p.c.nodes),
		RePublish: &jetstream.RePublish{Source: "bare.>", Destination: "copy.>"}})
	if err != nil {
		p.b.Fatal(err)
	}
	fast, err := jetstreamext.NewFastPublisher(p.public, jetstreamext.FastPublishFlowControl{Flow: 500,
		MaxOutstandingAcks: 4})
	if err != nil {
		p.b.Fatal(err)
	}
	body := bytes.Repeat([]byte("x"), 330)
	for range lines {
		if _, err := fast.Add("bare.codex.run.status", body); err != nil {
			p.b.Fatal(err)
		}
	}
	if _, err := fast.Close(p.b.Context()); err != nil {
		p.b.Fatal(err)
	}
	return 0
}

func (p *plant) removeBare() {
	if err := p.public.DeleteStream(p.b.Context(), "BARE"); err != nil {
		p.b.Fatal(err)
	}
}

// benchFiles writes a corpus as files of whole lines.
func benchFiles(b *testing.B, out []byte) (files []string, lines int) {
	b.Helper()
	dir := b.TempDir()
	all := corpus.Lines(out)
	for i := range benchRuns {
		file := filepath.Join(dir, fmt.Sprint(i)+".jsonl")
		part := bytes.Join(all[len(all)*i/benchRuns:len(all)*(i+1)/benchRuns], []byte("\n"))
		if err := os.WriteFile(file, append(part, '\n'), 0o600); err != nil {
			b.Fatal(err)
		}
		files = append(files, file)
	}
	return files, len(all)
}

// BenchmarkCell measures one cell, whole processes over loopback, with one server and with
// three copies on three servers, and with a normalizer on one processor: `tail --once` of
// four files until all events are stored, beside Z, a bare publisher on the same servers.
func BenchmarkCell(b *testing.B) {
	plants := []*plant{newPlant(b, "R1", 1, 0), newPlant(b, "R3", 3, 0), newPlant(b, "R1-one-processor", 1, 1)}
	small, smallLines := benchFiles(b, corpus.Small(benchLines))
	mix, mixLines := benchFiles(b, corpus.Mix(benchLines/4))
	for b.Loop() {
		for _, p := range plants {
			p.measure("Z", benchLines, func() time.Duration { return p.bare(benchLines) })
			p.removeBare()
			p.measure("small", smallLines, func() time.Duration { return p.tail(small) })
			p.measure("mix", mixLines, func() time.Duration { return p.tail(mix) })
		}
	}
	z := median(plants[0].rates["Z"])
	b.ReportMetric(0, "ns/op")
	for _, p := range plants {
		for _, what := range []string{"Z", "small", "mix"} {
			b.ReportMetric(median(p.rates[what])/z, p.name+"-"+what+"/Z1")
			p.report(what, p.name+"-"+what)
		}
	}
}

// BenchmarkSubscribers measures how much slower a cell is while subscribers, in one process
// on the same machine, receive all live events, until all have them; and what the server
// takes for a line.
func BenchmarkSubscribers(b *testing.B) {
	p := newPlant(b, "", 1, 0)
	files, lines := benchFiles(b, corpus.Small(benchLines/8))
	counts := []int{0, 1, 10, 100}
	p.tail(files) // the caches
	for b.Loop() {
		for _, n := range counts {
			var ended, got atomic.Int64
			var all []*nats.Conn
			for range n {
				conn := p.c.connect("alpha", embedded.SubscriberUser).Conn()
				if _, err := conn.Subscribe("alpha.live.>", func(m *nats.Msg) {
					got.Add(1)
					if strings.HasSuffix(m.Subject, ".completion") {
						ended.Add(1)
					}
				}); err != nil {
					b.Fatal(err)
				}
				if err := conn.Flush(); err != nil {
					b.Fatal(err)
				}
				all = append(all, conn)
			}
			p.measure(strconv.Itoa(n), lines, func() time.Duration {
				own := p.tail(files)
				fixture.Eventually(b, patience, "not all was delivered", func() bool {
					return ended.Load() == int64(n*len(files))
				})
				return own
			})
			if got.Load() < int64(n*lines) {
				b.Errorf("%d subscribers received %d messages of %d lines", n, got.Load(), lines)
			}
			for _, conn := range all {
				conn.Close()
			}
		}
	}
	b.ReportMetric(0, "ns/op")
	for _, n := range counts {
		what := strconv.Itoa(n)
		b.ReportMetric(median(p.rates[what])/median(p.rates["0"]), what+"/none")
		b.ReportMetric(median(p.cpu[what+" server"]), what+"-server-us/line")
	}
}

// BenchmarkOpenRuns measures lines of many runs that are open at the same time, each line an
// entry of its own: the rate to stored events, beside that of four runs, CPU time, and the
// memory of the normalizer.
func BenchmarkOpenRuns(b *testing.B) {
	p, counts := newPlant(b, "R1", 1, 0), []int{4, 1000, 4000, 10_000, 50_000}
	memory := map[int]float64{}
	for b.Loop() {
		for _, n := range counts {
			p.openRuns(strconv.Itoa(n), n, 100_000, 0)
			memory[n] = resident(b, p.roles["normalizer"].Cmd.Process.Pid)
		}
	}
	b.ReportMetric(0, "ns/op")
	for _, n := range counts {
		what := strconv.Itoa(n)
		b.ReportMetric(median(p.rates[what])/median(p.rates["4"]), what+"/four")
		b.ReportMetric(memory[n], what+"-normalizer-MiB")
		p.report(what, what)
	}
}

// BenchmarkSlowRuns measures what a line costs where 4,000 open runs write one line a second
// each, with one copy and with three.
func BenchmarkSlowRuns(b *testing.B) {
	plants := []*plant{newPlant(b, "R1", 1, 0), newPlant(b, "R3", 3, 0)}
	for b.Loop() {
		for _, p := range plants {
			p.openRuns("slow", 4000, 40_000, 4000)
		}
	}
	b.ReportMetric(0, "ns/op")
	for _, p := range plants {
		p.report("slow", p.name)
	}
}

// openRuns appends entries of one line to n new runs, perSecond or, if that is 0, as fast as
// the server takes them, and waits until all events are stored.
func (p *plant) openRuns(what string, n, entries, perSecond int) {
	p.b.Helper()
	js, err := jetstream.New(p.c.connect("alpha", embedded.OperatorUser).Conn(),
		jetstream.WithPublishAsyncMaxPending(4096))
	if err != nil {
		p.b.Fatal(err)
	}
	line := []byte(`{"type":"item.completed","item":{"id":"item_1","type":"agent_message","text":"` +
		strings.Repeat("some words ", 12) + `"}}` + "\n")
	before := p.lastEvent()
	p.measure(what, entries, func() time.Duration {
		pace := time.NewTicker(100 * time.Millisecond)
		defer pace.Stop()
		for i := range entries {
			if perSecond > 0 && i%(perSecond/10) == 0 {
				<-pace.C
			}
			m := nats.NewMsg(fmt.Sprintf("alpha.raw.codex.open-%d-%d-%d", before, n, i%n))
			m.Header.Set("Linesman-Record", "out")
			m.Header.Set("Linesman-Time", strconv.FormatInt(time.Now().UnixMilli(), 10))
			m.Header.Set("Linesman-Offset", strconv.Itoa(i/n*len(line)))
			m.Data = line
			if _, err := js.PublishMsgAsync(m, jetstream.WithStallWait(10*time.Second)); err != nil {
				p.b.Fatal(err)
			}
		}
		want := before + uint64(entries)
		fixture.Eventually(p.b, patience, "not all is stored", func() bool { return p.lastEvent() >= want })
		return 0
	})
}

// report reports the medians of a measurement under a name.
func (p *plant) report(what, name string) {
	p.b.ReportMetric(median(p.rates[what]), name+"-lines/s")
	p.b.ReportMetric(median(p.disk[what]), name+"-disk-bytes/line")
	for _, process := range []string{"server", "normalizer", "worker"} {
		if us := median(p.cpu[what+" "+process]); us > 0.05 {
			p.b.ReportMetric(us, name+"-"+process+"-us/line")
		}
	}
}

// lastEvent returns the sequence of the last event.
func (p *plant) lastEvent() uint64 {
	p.b.Helper()
	s, err := p.public.Stream(p.b.Context(), "ALPHA_EVENTS")
	if err != nil {
		p.b.Fatal(err)
	}
	return s.CachedInfo().State.LastSeq
}

// BenchmarkResponders measures requests for the status of a run by 32 clients, with one, two
// and four responders of a cell that has 1,000 runs, beside requests to a bare subscriber.
func BenchmarkResponders(b *testing.B) {
	p := newPlant(b, "", 1, 0)
	p.records(0, 1000)
	inside := p.c.connect("alpha", embedded.OperatorUser).Conn()
	if _, err := inside.Subscribe("alpha.bare", func(m *nats.Msg) { _ = m.Respond(make([]byte, 600)) }); err != nil {
		b.Fatal(err)
	}
	rate := func(subject string) float64 {
		const clients, requests = 32, 500
		began := time.Now()
		done := make(chan error, clients)
		for i := range clients {
			go func() {
				for j := range requests {
					body := fmt.Appendf(nil, `{"run":%q}`, runID((i*requests+j)%1000))
					if _, err := inside.Request(subject, body, 10*time.Second); err != nil {
						done <- err
						return
					}
				}
				done <- nil
			}()
		}
		for range clients {
			if err := <-done; err != nil {
				b.Fatal(err)
			}
		}
		return clients * requests / time.Since(began).Seconds()
	}
	ratios, cost := map[int][]float64{}, map[int][]float64{}
	var responders []int
	for _, n := range []int{1, 2, 4} {
		for len(responders) < n {
			responders = append(responders, p.responder().Cmd.Process.Pid)
		}
		rate("alpha.api.status")
		for range 5 {
			bare := rate("alpha.bare")
			before := cpuTime(b, responders...)
			ratios[n] = append(ratios[n], rate("alpha.api.status")/bare)
			cost[n] = append(cost[n], float64((cpuTime(b, responders...)-before).Microseconds())/16_000)
		}
	}
	for b.Loop() { // measured above
	}
	b.ReportMetric(0, "ns/op")
	for n, all := range ratios {
		b.ReportMetric(median(all), fmt.Sprint(n)+"/bare")
		b.ReportMetric(median(cost[n]), fmt.Sprint(n)+"-us/request")
	}
}

// BenchmarkRuns measures the memory of a responder and of the server with 1,000, 10,000 and
// 100,000 runs.
func BenchmarkRuns(b *testing.B) {
	p := newPlant(b, "", 1, 0)
	p.roles["normalizer"].Kill()
	made, memory := 0, map[string]float64{}
	for _, n := range []int{1_000, 10_000, 100_000} {
		p.records(made, n)
		made = n
		r := p.responder()
		memory[fmt.Sprint(n)+"-responder-MiB"] = resident(b, r.Cmd.Process.Pid)
		memory[fmt.Sprint(n)+"-server-MiB"] = resident(b, p.c.nodes[0].cmd.Process.Pid)
		r.Kill()
	}
	for b.Loop() { // measured above
	}
	s, err := p.c.connect("alpha", embedded.OperatorUser).Stream(b.Context(), "KV_alpha_runs")
	if err != nil {
		b.Fatal(err)
	}
	for name, mib := range memory {
		b.ReportMetric(mib, name)
	}
	b.ReportMetric(float64(s.CachedInfo().State.Bytes)/float64(made), "disk-bytes/run")
	b.ReportMetric(0, "ns/op")
}

// responder starts one more, and waits until it has read all runs.
func (p *plant) responder() *fixture.Process {
	cmd := exec.Command(program, p.arguments("responder", "--data-dir", p.b.TempDir())...)
	cmd.Dir = p.dir
	r := fixture.StartAsIs(p.b, cmd)
	r.AwaitEither("ready http=")
	return r
}

func runID(i int) string { return fmt.Sprintf("T-local-%015d", i) }

// records stores the records of ended runs, from one number to another.
func (p *plant) records(from, to int) {
	p.b.Helper()
	js, err := jetstream.New(p.c.connect("alpha", embedded.OperatorUser).Conn(),
		jetstream.WithPublishAsyncMaxPending(1024))
	if err != nil {
		p.b.Fatal(err)
	}
	final := "Done: the failing test passes, two files were changed."
	for i := from; i < to; i++ {
		r := runs.NewRecord(runID(i), "codex")
		r.State, r.Source, r.Queue, r.Work = runs.StateCompleted, "queue", "default", uint64(i)
		r.Worker = "host-0123456789abcdef"
		r.QueuedAt, r.StartedAt, r.ActiveAt, r.EndedAt = int64(1_790_000_000_000+i), int64(1_790_000_001_000+i),
			int64(1_790_000_002_000+i), int64(1_790_000_003_000+i)
		r.Dir, r.Thread, r.Seq = "/home/dev/project", fmt.Sprintf("01a2b3c4-0000-7000-8000-%012d", i), uint64(i+1)
		r.Lines = 40
		r.FinalText = &final
		m := nats.NewMsg("$KV.alpha_runs." + r.ID)
		m.Header.Set("Linesman-Run", r.Header().Text())
		m.Data = slices.Concat([]byte(`{"format":1,"record":`), r.JSON(), []byte{'}'})
		if _, err := js.PublishMsgAsync(m); err != nil {
			p.b.Fatal(err)
		}
	}
	<-js.PublishAsyncComplete()
}

// cpuTime returns the CPU time of processes, in steps of 10 ms.
func cpuTime(b *testing.B, pids ...int) (total time.Duration) {
	b.Helper()
	for _, pid := range pids {
		stat, err := os.ReadFile(fmt.Sprintf("/proc/%d/stat", pid))
		if err != nil {
			b.Fatal(err)
		}
		f := strings.Fields(string(stat[bytes.LastIndexByte(stat, ')')+2:]))
		for _, ticks := range f[11:13] { // utime and stime
			n, err := strconv.Atoi(ticks)
			if err != nil {
				b.Fatal(err)
			}
			total += time.Duration(n) * 10 * time.Millisecond
		}
	}
	return total
}

// diskBytes returns how many bytes processes have written to files.
func diskBytes(b *testing.B, pids []int) (total float64) {
	b.Helper()
	for _, pid := range pids {
		io, err := os.ReadFile(fmt.Sprintf("/proc/%d/io", pid))
		if err != nil {
			b.Fatal(err)
		}
		_, rest, _ := strings.Cut(string(io), "\nwrite_bytes: ")
		n, err := strconv.Atoi(strings.Fields(rest)[0])
		if err != nil {
			b.Fatal(err)
		}
		total += float64(n)
	}
	return total
}

// resident returns the memory of a process in MiB.
func resident(b *testing.B, pid int) float64 {
	b.Helper()
	status, err := os.ReadFile(fmt.Sprintf("/proc/%d/status", pid))
	if err != nil {
		b.Fatal(err)
	}
	_, rest, _ := strings.Cut(string(status), "VmRSS:")
	kib, err := strconv.Atoi(strings.Fields(rest)[0])
	if err != nil {
		b.Fatal(err)
	}
	return float64(kib) / 1024
}

func median(all []float64) float64 {
	if len(all) == 0 {
		return 0
	}
	slices.Sort(all)
	return all[len(all)/2]
}
