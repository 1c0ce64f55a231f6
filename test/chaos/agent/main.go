// Command agent is an agent that keeps a journal of what it writes, so that
// somebody can say afterwards what linesman must have kept. What it writes is
// a function of its prompt:
//
//	agent JOURNALS [anything…] "KEY BEHAVIOUR SEED [NAME=VALUE…]"
//
// In JOURNALS/KEY it keeps three files. out and err get every byte before
// stdout and stderr do; marks says what was done: `start PID`, then `out N`
// and `err N` once so many bytes have been written, and `end CODE`. So after a
// kill -9 at any point stdout holds a beginning of out that is no shorter than
// the last mark says.
//
// With the word live instead of a prompt it speaks the Agent Client Protocol, and KEY is the name of the directory
// that it is started in. It also keeps in, each line that it has accepted.
package main

import (
	"bytes"
	"fmt"
	"math/rand/v2"
	"os"
	"os/exec"
	"os/signal"
	"path/filepath"
	"strconv"
	"strings"
	"syscall"
	"time"

	"github.com/linesman/linesman/test/fixture"
)

func main() {
	if len(os.Args) < 3 {
		fmt.Fprintln(os.Stderr, "agent: needs a directory and a prompt")
		os.Exit(64)
	}
	if os.Args[len(os.Args)-1] == "live" {
		os.Exit(live(os.Args[1]))
	}
	words := strings.Fields(os.Args[len(os.Args)-1])
	if len(words) < 3 {
		fmt.Fprintln(os.Stderr, "agent: needs KEY BEHAVIOUR SEED")
		os.Exit(64)
	}
	seed, err := strconv.ParseUint(words[2], 10, 64)
	do, known := behaviours[words[1]]
	if err != nil || !known {
		fmt.Fprintln(os.Stderr, "agent: no such behaviour, or no seed")
		os.Exit(64)
	}
	a := &agent{key: words[0], dir: filepath.Join(os.Args[1], words[0]), seed: seed,
		random: rand.New(rand.NewPCG(seed, 1)), set: map[string]string{}}
	for _, w := range words[3:] {
		name, value, _ := strings.Cut(w, "=")
		a.set[name] = value
	}
	a.open()
	code := 0
	if a.set["child"] == "" {
		a.mark("start %d", os.Getpid())
		code = do(a)
		a.mark("end %d", code)
	} else {
		do(a)
	}
	os.Exit(code)
}

// agent is one run of the program, or of a child that it left behind.
type agent struct {
	key     string
	dir     string
	seed    uint64
	random  *rand.Rand
	set     map[string]string
	marks   *os.File
	out     sink
	err     sink
	lines   int
	written int // to stdout

	cancelled bool // the turn of a live one
}

// sink is an output with its journal. Several processes may have it, one after
// the other.
type sink struct {
	name    string
	to      *os.File
	journal *os.File
}

func (a *agent) open() {
	must(os.MkdirAll(a.dir, 0o700))
	file := func(name string) *os.File {
		f, err := os.OpenFile(filepath.Join(a.dir, name), os.O_CREATE|os.O_APPEND|os.O_WRONLY, 0o600)
		must(err)
		return f
	}
	a.marks = file("marks")
	a.out = sink{"out", os.Stdout, file("out")}
	a.err = sink{"err", os.Stderr, file("err")}
}

func must(err error) {
	if err != nil {
		fmt.Fprintln(os.Stderr, "agent:", err)
		os.Exit(70)
	}
}

func (a *agent) mark(format string, args ...any) {
	_, err := fmt.Fprintf(a.marks, format+"\n", args...)
	must(err)
}

// write writes to the journal, to the output, and to the marks, in this order.
func (a *agent) write(s *sink, b []byte) {
	_, err := s.journal.Write(b)
	must(err)
	_, err = s.to.Write(b)
	must(err)
	info, err := s.journal.Stat()
	must(err)
	a.mark("%s %d", s.name, info.Size())
}

func (a *agent) say(b []byte) {
	a.write(&a.out, b)
	a.written += len(b)
}

func (a *agent) line(s string)     { a.say([]byte(s + "\n")) }
func (a *agent) complain(s string) { a.write(&a.err, []byte(s)) }

// secret is what must appear in the raw log and nowhere else.
func (a *agent) secret() string {
	a.lines++
	return fmt.Sprintf(fixture.Sentinel+"%s-%d", a.key, a.lines)
}

// number is a setting of the prompt.
func (a *agent) number(name string, standard int) int {
	n, err := strconv.Atoi(a.set[name])
	if err != nil {
		return standard
	}
	return n
}

// await waits for a file of the journal that the test makes.
func (a *agent) await(name string) {
	for {
		if _, err := os.Stat(filepath.Join(a.dir, name)); err == nil {
			return
		}
		time.Sleep(5 * time.Millisecond)
	}
}

// leave starts this program again as a process that outlives this one, with
// the same prompt and child=1. Beyond is whether it leaves the group, too.
func (a *agent) leave(beyond bool) {
	prompt := os.Args[len(os.Args)-1] + " child=1"
	cmd := exec.Command("/proc/self/exe", os.Args[1], prompt)
	cmd.Stdout, cmd.Stderr = os.Stdout, os.Stderr
	cmd.SysProcAttr = &syscall.SysProcAttr{Setsid: beyond}
	must(cmd.Start())
}

// behaviours are what an agent can do; each returns the exit code. A child
// runs the same function with child=1.
var behaviours = map[string]func(*agent) int{
	"talk":     talk,
	"endless":  endless,
	"orphan":   func(a *agent) int { return outlive(a, false) },
	"escape":   func(a *agent) int { return outlive(a, true) },
	"hold":     hold,
	"deaf":     deaf,
	"stderr":   stderr,
	"close":    closeEarly,
	"forge":    forge,
	"truncate": truncate,
	"hole":     hole,
	"halt":     halt,
	"unlink":   unlink,
	"torn":     torn,
	"tiny":     tiny,
	"unbroken": unbroken,
	"silent":   silent,
}

// talk is a session with all that a line may be, at a pace, cut anywhere.
func talk(a *agent) int {
	a.line(`{"type":"thread.started","thread_id":"thread-` + a.key + `","extra":"` + a.secret() + `"}`)
	a.line(`{"type":"turn.started"}`)
	pace := time.Duration(a.number("pace", 10)) * time.Millisecond
	lines, bytes := a.number("lines", 30), a.number("bytes", 0)
	for i := 0; i < lines || a.written < bytes; i++ {
		b := []byte(a.anyLine(i) + "\n")
		for len(b) > 0 { // as a buffer of any size would cut it
			n := len(b)
			if a.random.IntN(3) == 0 {
				n = 1 + a.random.IntN(n)
			}
			a.say(b[:n])
			b = b[n:]
		}
		if a.random.IntN(8) == 0 {
			a.complain("warning: " + a.secret() + "\n")
		}
		if pace > 0 {
			time.Sleep(time.Duration(a.random.Int64N(int64(2 * pace))))
		}
	}
	a.line(fmt.Sprintf(`{"type":"turn.completed","usage":{"input_tokens":%d,"cached_input_tokens":1,"output_tokens":2},"extra":%q}`, a.random.IntN(1e6), a.secret()))
	return []int{0, 0, 0, 3}[a.random.IntN(4)]
}

func (a *agent) anyLine(i int) string {
	id := "item_" + strconv.Itoa(i)
	switch a.random.IntN(10) {
	case 0:
		return `{"type":"item.completed","item":{"id":"` + id + `","type":"reasoning","text":"thinking ` + strconv.Itoa(i) +
			`"}}`
	case 1, 2:
		return `{"type":"item.completed","item":{"id":"` + id + `","type":"agent_message","text":"message ` +
			strconv.Itoa(i) + ` é 漢 \u0000"}}`
	case 3:
		return `{"type":"item.started","item":{"id":"` + id + `","type":"command_execution","command":"true ` + a.secret() +
			`","status":"in_progress"}}`
	case 4:
		return `{"type":"item.completed","item":{"id":"` + id +
			`","type":"command_execution","command":"true","aggregated_output":"` +
			strings.Repeat(a.secret()+` \n`, 1+a.random.IntN(300)) + `","exit_code":0,"status":"completed"}}`
	case 5:
		return `{"type":"something.new","payload":"` + a.secret() + `"}`
	case 6:
		return `not JSON: ` + a.secret()
	case 7:
		return "{\"type\":\"error\",\"message\":\"\xff" + a.secret() + `"}`
	case 8:
		if a.random.IntN(6) > 0 {
			return ""
		}
		return `{"type":"item.completed","item":{"id":"` + id + `","type":"agent_message","text":"` +
			strings.Repeat("long text ", 20_000) + `"}}`
	}
	return `{"type":"item.completed","item":{"id":"` + id +
		`","type":"mcp_tool_call","server":"s","tool":"t","arguments":{"a":"` + a.secret() + `"},"status":"completed"}}`
}

// endless talks until somebody ends it, or the test makes the file stop.
func endless(a *agent) int {
	for i := 0; ; i++ {
		a.line(a.anyLine(i))
		if _, err := os.Stat(filepath.Join(a.dir, "stop")); err == nil {
			return 0
		}
		time.Sleep(time.Duration(a.number("pace", 5)) * time.Millisecond)
	}
}

// outlive leaves a child that writes after the leader's end.
func outlive(a *agent, beyond bool) int {
	if a.set["child"] != "" {
		a.await("go")
		for i := range 50 {
			a.line(a.anyLine(i))
		}
		return 0
	}
	a.line(`{"type":"item.completed","item":{"id":"item_0","type":"agent_message","text":"the leader"}}`)
	a.leave(beyond)
	return 0
}

// hold leaves a child that has stdout open and writes nothing.
func hold(a *agent) int {
	if a.set["child"] != "" {
		a.await("go")
		return 0
	}
	a.line(`{"type":"item.completed","item":{"id":"item_0","type":"agent_message","text":"held"}}`)
	a.leave(false)
	return 0
}

// deaf ignores the signal that asks it to end.
func deaf(a *agent) int {
	signal.Ignore(syscall.SIGTERM, syscall.SIGINT, syscall.SIGHUP)
	return endless(a)
}

// stderr floods stderr, with some lines of stdout in between.
func stderr(a *agent) int {
	for i := range 48 {
		a.complain(strings.Repeat(a.secret()+"\n", 64<<10/32))
		a.line(a.anyLine(i))
	}
	a.complain("the last words")
	return 0
}

// closeEarly closes stdout and goes on for a while.
func closeEarly(a *agent) int {
	a.line(`{"type":"item.completed","item":{"id":"item_0","type":"agent_message","text":"all I have to say"}}`)
	must(os.Stdout.Close())
	a.mark("closed")
	a.await("go")
	a.complain("still here\n")
	return 4
}

// forge prints what linesman itself writes elsewhere.
func forge(a *agent) int {
	for _, s := range []string{
		"NATS/1.0\r\nLinesman-Record: exit\r\nLinesman-Time: 1\r\nNats-Expected-Last-Subject-Sequence: 0\r\n\r\n" +
			`{"reason":"exited","code":0}`,
		"Linesman-Record: cancel\r\nLinesman-Offset: 0\r\n\r\n{}",
		"PUB linesman.events.codex.x.completion 2\r\n{}\r\n",
		"+OK\r\n-ERR 'x'\r\nPING\r\n",
		`{"agent_kind":"codex","status":{"success":true,"code":0,"signal":null},"final_text":"` + a.secret() +
			`","data":null,"error":null}`,
		`{"agent_kind":"codex","kind":"TextOutput","channel":"assistant","text":"` + a.secret() +
			`","message":null,"data":null}`,
		`{"reason":"exited","code":0}`,
		`{"type":"completion","status":"` + a.secret() + `"}`,
		`{"type":"turn.completed","usage":{"input_tokens":-1,"output_tokens":1e400}}`,
		`{"format":1,"raw_stream":"x","event_stream":"x","event_seq":1,"record":{"id":"x","state":"completed"},"state":null}`,
	} {
		a.line(s)
	}
	return 5
}

// truncate writes, waits until the test has seen that stored, empties its own
// stdout, and writes again. The new content differs from the old one in its first
// 128 bytes: a worker tells them apart by these.
func truncate(a *agent) int {
	for i := range 20 {
		a.line(a.anyLine(i))
	}
	a.mark("written")
	a.await("go")
	must(os.Truncate("/proc/self/fd/1", 0))
	a.mark("truncated")
	a.line(fmt.Sprintf("%d: not JSON", a.lines))
	for i := range 20 {
		a.line(a.anyLine(i))
	}
	return 0
}

// hole makes its own stdout terabytes longer without writing them.
func hole(a *agent) int {
	a.line(a.anyLine(0))
	// The rest of the last block that was written cannot be told from zeros that were.
	_, err := a.out.journal.Write(make([]byte, 64<<10))
	must(err)
	must(os.Truncate("/proc/self/fd/1", 4<<40))
	a.mark("longer")
	a.await("never")
	return 0
}

// halt stops the process that started it, which then enforces no limits.
func halt(a *agent) int {
	a.line(a.anyLine(0))
	must(syscall.Kill(os.Getppid(), syscall.SIGSTOP))
	a.mark("halted")
	return endless(a)
}

// unlink removes the FIFO beside its stdout that takes commands.
func unlink(a *agent) int {
	out, err := os.Readlink("/proc/self/fd/1")
	must(err)
	must(os.Remove(filepath.Join(filepath.Dir(out), "ctl")))
	a.mark("unlinked")
	return endless(a)
}

// torn cuts characters, holds NUL bytes, and ends in the middle of a line.
func torn(a *agent) int {
	a.say([]byte("{\"type\":\"item.completed\",\"item\":{\"id\":\"item_0\"," +
		"\"type\":\"agent_message\",\"text\":\"\xe6\xbc"))
	a.await("go")
	a.say([]byte("\xa2\"}}\n\xf0\x9f"))
	a.say([]byte("\n\x00\n\x00\x00{\"type\":\"turn.started\"}\n"))
	a.say(bytes.Repeat([]byte{0}, 100_000))
	a.say([]byte("\n{\"type\":\"item.completed\",\"item\":{\"id\":\"item_1\"," +
		"\"type\":\"agent_message\",\"text\":\"\xf0\x9f\x99"))
	return 0
}

// tiny writes many lines at once.
func tiny(a *agent) int {
	a.say([]byte(strings.Repeat("{}\n", a.number("lines", 10_000))))
	return 0
}

// unbroken writes so many MiB without a newline, and then a line.
func unbroken(a *agent) int {
	block := []byte(strings.Repeat("0123456789abcdef", 64<<10))
	for range a.number("mib", 100) {
		a.say(block)
	}
	a.line("")
	a.line(`{"type":"item.completed","item":{"id":"item_0","type":"agent_message","text":"after it"}}`)
	return 0
}

// silent says one line, and then nothing for ever.
func silent(a *agent) int {
	a.line(`{"type":"turn.started","extra":"` + a.secret() + `"}`)
	a.await("never")
	return 0
}
