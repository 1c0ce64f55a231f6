package cells

import (
	"bytes"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strconv"
	"sync"
	"testing"
	"time"

	"github.com/nats-io/nats.go"
	"github.com/nats-io/nats.go/jetstream"

	"github.com/linesman/linesman/bus/embedded"
	"github.com/linesman/linesman/test/fixture"
)

// The agents of BenchmarkTrickle: each follower has so many files, and each file gets a line a second, spread evenly.
const trickleWorkers, trickleFiles = 4, 500

// BenchmarkTrickle measures a cell as it runs on several machines: three servers, four workers that follow five hundred
// files each, two normalizers and two responders, all here. While each file gets a line a second it measures what a
// line costs each role, and when its event arrives at a subscriber. Then the leaders of RAW and of EVENTS are killed,
// one after the other: in the end each line has its event, once.
func BenchmarkTrickle(b *testing.B) {
	p := newPlant(b, "R3", 3, 0)
	p.start("standby", "ready")
	roles := map[string][]int{
		"normalizer": {p.roles["normalizer"].Cmd.Process.Pid, p.roles["standby"].Cmd.Process.Pid},
		"responder":  {p.responder().Cmd.Process.Pid, p.responder().Cmd.Process.Pid},
	}
	for _, n := range p.c.nodes {
		roles["server"] = append(roles["server"], n.cmd.Process.Pid)
	}
	w := newTrickle(b)
	for i := range trickleWorkers {
		args := append([]string{"--data-dir", b.TempDir()}, w.files[i*trickleFiles:(i+1)*trickleFiles]...)
		tail := fixture.StartAsIs(b, exec.Command(program, p.arguments("tail", args...)...))
		roles["worker"] = append(roles["worker"], tail.Cmd.Process.Pid)
	}
	stored := func() {
		fixture.Eventually(b, patience, "lines are missing", func() bool { return p.texts() >= w.written })
	}
	stored()

	late := &latencies{}
	reader := p.c.connect("", "subscriber").Conn()
	if _, err := reader.Subscribe("alpha.live.*.*.text_output", late.take); err != nil {
		b.Fatal(err)
	}
	w.write(b, 10*time.Second) // caches fill
	stored()
	late.reset()
	cpu, before := map[string]float64{}, p.texts()
	disk := diskBytes(b, roles["server"])
	for name, pids := range roles {
		cpu[name] = float64(cpuTime(b, pids...).Microseconds())
	}
	for b.Loop() {
		w.write(b, 20*time.Second)
	}
	stored()
	lines := float64(p.texts() - before)
	b.ReportMetric((diskBytes(b, roles["server"])-disk)/lines, "disk-bytes/line")
	for name, pids := range roles {
		b.ReportMetric((float64(cpuTime(b, pids...).Microseconds())-cpu[name])/lines, name+"-us/line")
	}
	b.ReportMetric(0, "ns/op")
	late.report(b)

	inside := p.c.connect("alpha", embedded.OperatorUser)
	for stream, js := range map[string]jetstream.JetStream{"ALPHA_RAW": inside, "ALPHA_EVENTS": p.public} {
		n := p.c.leader(js, stream)
		n.kill()
		w.write(b, 20*time.Second)
		p.c.start(n)
		p.c.healthy()
	}
	stored()
	w.write(b, 2*time.Second)
	stored()
	if n := p.texts(); n != w.written {
		b.Errorf("%d events of %d lines", n, w.written)
	}
}

// texts counts the text outputs in EVENTS.
func (p *plant) texts() uint64 {
	p.b.Helper()
	s, err := p.public.Stream(p.b.Context(), "ALPHA_EVENTS")
	var info *jetstream.StreamInfo
	if err == nil {
		info, err = s.Info(p.b.Context(), jetstream.WithSubjectFilter("alpha.events.*.*.text_output"))
	}
	if err != nil { // a leader was killed
		return 0
	}
	n := uint64(0)
	for _, messages := range info.State.Subjects {
		n += messages
	}
	return n
}

// trickle writes lines to files.
type trickle struct {
	files   []string
	written uint64
	next    int // of files
}

// newTrickle writes a line to each file.
func newTrickle(b *testing.B) *trickle {
	b.Helper()
	w, dir := &trickle{}, b.TempDir()
	for i := range trickleWorkers * trickleFiles {
		w.files = append(w.files, filepath.Join(dir, strconv.Itoa(i)+".jsonl"))
	}
	for range w.files {
		w.line(b)
	}
	return w
}

// write writes a line a second to each file.
func (w *trickle) write(b *testing.B, long time.Duration) {
	b.Helper()
	const pace = 5 * time.Millisecond
	tick := time.NewTicker(pace)
	defer tick.Stop()
	began, before := time.Now(), w.written
	for time.Since(began) < long {
		due := uint64(time.Since(began).Seconds() * float64(len(w.files)))
		for w.written-before < due {
			w.line(b)
		}
		<-tick.C
	}
}

var stamp = []byte("written at ")

// line writes a line with its time to the next file.
func (w *trickle) line(b *testing.B) {
	b.Helper()
	f, err := os.OpenFile(w.files[w.next], os.O_CREATE|os.O_APPEND|os.O_WRONLY, 0o600)
	if err == nil {
		_, err = fmt.Fprintf(f, `{"type":"item.completed","item":{"id":"item_%d","type":"agent_message","text":"%s%d some `+
			`words some words some words some words some words some words some words some words"}}`+"\n",
			w.written, stamp, time.Now().UnixMicro())
	}
	if err == nil {
		err = f.Close()
	}
	if err != nil {
		b.Fatal(err)
	}
	w.next, w.written = (w.next+1)%len(w.files), w.written+1
}

// latencies are the times from lines to their events, in milliseconds.
type latencies struct {
	mu  sync.Mutex
	all []float64
}

func (l *latencies) take(m *nats.Msg) {
	_, rest, _ := bytes.Cut(m.Data, stamp)
	text, _, _ := bytes.Cut(rest, []byte(" "))
	at, err := strconv.ParseInt(string(text), 10, 64)
	if err != nil {
		return
	}
	l.mu.Lock()
	defer l.mu.Unlock()
	l.all = append(l.all, float64(time.Now().UnixMicro()-at)/1000)
}

func (l *latencies) reset() {
	l.mu.Lock()
	defer l.mu.Unlock()
	l.all = nil
}

func (l *latencies) report(b *testing.B) {
	l.mu.Lock()
	defer l.mu.Unlock()
	if len(l.all) == 0 {
		b.Fatal("no event arrived")
	}
	slices.Sort(l.all)
	b.ReportMetric(l.all[len(l.all)/2], "p50-ms")
	b.ReportMetric(l.all[len(l.all)*99/100], "p99-ms")
}
