package worker

import (
	"bufio"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strconv"
	"strings"
	"time"

	"golang.org/x/sys/unix"
)

// player is an agent that speaks the Agent Client Protocol. As real ones do, it ignores a line that is not valid
// JSON; each other one it keeps in the file accepted of its directory.
type player struct {
	dir      string
	does     map[string]int // what it does, by its name
	in       *bufio.Reader
	accepted *os.File
}

// accepted is a line that the player has read.
type accepted struct {
	ID     json.RawMessage `json:"id"`
	Method string          `json:"method"`
	Error  json.RawMessage `json:"error"`
}

// play is the main function of a player: a directory, and what it does, as NAME or NAME=NUMBER:
//
//	asks=N, flood=N  ask N permission requests in the turn, one after the other, or all at once
//	bare             its requests have no option to reject them
//	unknown=N        asks N unknown requests before
//	line=N           prints a line with N bytes before
//	waits            in the turn, for the file go in its directory
//	calls            has a tool call until then, and waits for the file on afterwards
//	twice            answers the prompt twice
//	dies, leaves     in the turn, after its questions: by SIGKILL, with exit code 0
//	complains        prints a line to stderr, the same in each process
//	stillborn        by SIGKILL, before its first line
//	faints           by SIGKILL, before it sets its mode
//	silent           answers nothing
//	mutters          answers nothing, and prints to stderr
//	numb             does not read any more once it has a session
//	deaf, closed     does not read, has no stdin
//	version=N        of the protocol
//	login, refuses   answers `session/new` or `session/set_mode` with an error
//	stays            after the end of its session
//	resumes, loads   offers to continue a session; lost: and refuses it
//	once-…           one of these, in its first process alone; later-…: in each other one
func play(dir string, does []string) error {
	p := &player{dir: dir, does: map[string]int{}, in: bufio.NewReaderSize(os.Stdin, 64<<10)}
	for _, word := range does {
		name, number, _ := strings.Cut(word, "=")
		if when, rest, found := strings.Cut(name, "-"); found {
			if name = rest; exists(filepath.Join(dir, "started")) == (when == "once") {
				continue
			}
		}
		n, _ := strconv.Atoi(number)
		p.does[name] = max(n, 1)
	}
	var err error
	p.accepted, err = os.OpenFile(p.file("accepted"), os.O_WRONLY|os.O_CREATE|os.O_APPEND, 0o600)
	if err != nil {
		return err
	}
	p.mark("started")
	if p.can("complains") {
		_, _ = os.Stderr.WriteString(complaint)
	}
	switch {
	case p.can("stillborn"):
		return unix.Kill(os.Getpid(), unix.SIGKILL)
	case p.can("closed"):
		return errors.Join(os.Stdin.Close(), p.sleep())
	case p.can("deaf"):
		return p.sleep()
	}
	for {
		m, err := p.next()
		if err != nil {
			return err
		}
		if err := p.obey(m); err != nil || m.Method == "session/close" && !p.can("stays") {
			return err
		}
	}
}

// complaint is what a player that complains prints.
const complaint = "no room left\n"

func (p *player) can(name string) bool { return p.does[name] > 0 }

func (p *player) file(name string) string { return filepath.Join(p.dir, name) }

// mark adds a line to a file, for the test.
func (p *player) mark(name string) {
	f, err := os.OpenFile(p.file(name), os.O_WRONLY|os.O_CREATE|os.O_APPEND, 0o600)
	if err == nil {
		_, _ = f.WriteString("x\n")
		f.Close()
	}
}

func (p *player) sleep() error {
	for {
		time.Sleep(time.Hour)
	}
}

// next returns the next line that is valid.
func (p *player) next() (m accepted, err error) {
	for {
		line, err := p.in.ReadBytes('\n')
		if err != nil {
			return m, err
		}
		if json.Unmarshal(line, &m) != nil {
			continue
		}
		_, err = p.accepted.Write(line)
		return m, err
	}
}

func (p *player) say(format string, args ...any) error {
	_, err := io.WriteString(os.Stdout, fmt.Sprintf(`{"jsonrpc":"2.0",`+format+"}\n", args...))
	return err
}

func (p *player) obey(m accepted) error {
	switch {
	case p.can("silent"):
	case p.can("mutters"):
		for {
			_, _ = os.Stderr.WriteString("x\n")
			time.Sleep(time.Millisecond)
		}
	case m.Method == "initialize":
		resumes := ""
		if p.can("resumes") {
			resumes = `,"resume":{}`
		}
		return p.say(`"id":%s,"result":{"protocolVersion":%d,"agentCapabilities":{"loadSession":%t,`+
			`"sessionCapabilities":{"close":{}%s}}}`, m.ID, max(p.does["version"], 1), p.can("loads"), resumes)
	case (m.Method == "session/resume" || m.Method == "session/load") && p.can("lost"):
		return p.say(`"id":%s,"error":{"code":-32602,"message":"no such session"}`, m.ID)
	case m.Method == "session/load":
		return errors.Join(p.chunk(0, "said before "), p.say(`"id":%s,"result":{}`, m.ID))
	case m.Method == "session/set_mode" && p.can("faints"):
		return unix.Kill(os.Getpid(), unix.SIGKILL)
	case m.Method == "session/set_mode" && p.can("numb"):
		return errors.Join(p.say(`"id":%s,"result":{}`, m.ID), p.sleep())
	case m.Method == "session/new" && p.can("login"):
		return p.say(`"id":%s,"error":{"code":-32000,"message":"Authentication required"}`, m.ID)
	case m.Method == "session/new":
		return p.say(`"id":%s,"result":{"sessionId":"s1","modes":{"currentModeId":"default","availableModes":[]}}`, m.ID)
	case m.Method == "session/set_mode" && p.can("refuses"):
		return p.say(`"id":%s,"error":{"code":-32602,"message":"no such mode"}`, m.ID)
	case m.Method == "session/prompt":
		return p.turn(m)
	case m.Method != "" && m.ID != nil:
		return p.say(`"id":%s,"result":{}`, m.ID)
	}
	return nil
}

func (p *player) turn(prompt accepted) error {
	if err := p.chunk(p.does["line"], "first "); err != nil {
		return err
	}
	var asked []string
	ask := func(id, method string) error {
		asked = append(asked, id)
		no := `,{"optionId":"no","kind":"reject_once","name":"No"}`
		if p.can("bare") {
			no = ""
		}
		return p.say(`"id":%s,"method":%q,"params":{"sessionId":"s1","toolCall":{"toolCallId":"c%s","kind":"execute"},`+
			`"options":[{"optionId":"yes","kind":"allow_once","name":"Yes"}%s]}`,
			id, method, id, no)
	}
	for i := range p.does["unknown"] {
		if err := ask(strconv.Itoa(5000+i), "fs/read_text_file"); err != nil {
			return err
		}
	}
	for i := range p.does["flood"] {
		if err := ask(strconv.Itoa(1000+i), "session/request_permission"); err != nil {
			return err
		}
	}
	for i := range p.does["asks"] {
		if err := errors.Join(p.chunk(0, "part "+strconv.Itoa(i)+" "), ask(strconv.Itoa(i), "session/request_permission"),
			p.answers(&asked)); err != nil {
			return err
		}
	}
	if err := p.answers(&asked); err != nil {
		return err
	}
	p.mark("asked")
	call := func(kind, status string) error {
		if !p.can("calls") {
			return nil
		}
		return p.say(`"method":"session/update","params":{"sessionId":"s1","update":{"sessionUpdate":%q,"toolCallId":"c",`+
			`"status":%q}}`, kind, status)
	}
	if err := call("tool_call", "in_progress"); err != nil {
		return err
	}
	for p.can("waits") && !exists(p.file("go")) {
		time.Sleep(time.Millisecond)
	}
	if err := call("tool_call_update", "completed"); err != nil {
		return err
	}
	for p.can("calls") && !exists(p.file("on")) {
		time.Sleep(time.Millisecond)
	}
	switch {
	case p.can("dies"):
		if p.can("helper") {
			helper := exec.Command("/bin/sh", "-c", `trap "" TERM; echo $$ >h; mv h helper; while :; do sleep 0.02; done`)
			if helper.Dir = p.dir; helper.Start() != nil {
				return errors.New("no helper")
			}
			for !exists(p.file("helper")) {
				time.Sleep(time.Millisecond)
			}
		}
		return unix.Kill(os.Getpid(), unix.SIGKILL)
	case p.can("leaves"):
		os.Exit(0)
	}
	for range max(p.does["twice"]*2, 1) {
		if err := p.say(`"id":%s,"result":{"stopReason":"end_turn"}`, prompt.ID); err != nil {
			return err
		}
	}
	return nil
}

func (p *player) chunk(size int, text string) error {
	return p.say(`"method":"session/update","params":{"sessionId":"s1","update":{"sessionUpdate":"agent_message_chunk",`+
		`"content":{"type":"text","text":"%s%s"}}}`, text, strings.Repeat("y", size))
}

// answers waits for the answer to each request.
func (p *player) answers(asked *[]string) error {
	for len(*asked) > 0 {
		m, err := p.next()
		if err != nil {
			return err
		}
		if m.Method != "" {
			if err := p.obey(m); err != nil {
				return err
			}
			continue
		}
		*asked = slices.DeleteFunc(*asked, func(id string) bool { return id == string(m.ID) })
	}
	return nil
}
