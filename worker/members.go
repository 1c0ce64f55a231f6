package worker

import (
	"os"
	"slices"
	"strings"
	"time"

	"golang.org/x/sys/unix"
)

// markVariable is put into the environment of an agent, with a value that no
// other run has. Descendants inherit it, however far they move away.
const markVariable = "_LINESMAN_MARK"

// InAgent reports whether the calling process, whose environment is given,
// belongs to the agent of a run: what it starts is killed with that agent. An
// agent may start a program with few variables, such as an MCP server; where the
// system shows the environments of other processes, the parents are asked, too.
func InAgent(environ []string) bool {
	const mark = markVariable + "="
	if slices.ContainsFunc(environ, func(v string) bool { return strings.HasPrefix(v, mark) }) {
		return true
	}
	for pid := os.Getppid(); pid > 1; {
		if has, _ := hasVariable(pid, mark); has {
			return true
		}
		parent, _ := lookup(pid)
		pid = parent.parent
	}
	return false
}

// identity tells the processes of one run from all others, whatever happens to
// the shim. It is the content of the file started: a JSON value written before
// the agent starts, and a second one with the agent itself right after.
type identity struct {
	Mark    string `json:"mark,omitempty"`    // value of markVariable
	Boot    string `json:"boot,omitempty"`    // boot ID of the machine
	Session int    `json:"session,omitempty"` // session that the shim made; 0: it was in one of others
	Agent   int    `json:"agent,omitempty"`   // process ID, and number of the agent's process group
	Start   uint64 `json:"start,omitempty"`   // when the agent started, in the system's own unit
}

// process is one line of the process table.
type process struct {
	pid, parent, group, session int

	start  uint64 // together with pid it names one process since boot
	dead   bool   // and not reaped yet
	kernel bool   // a thread of the kernel, which has no environment and no open files
}

// signal sends sig, unless the number belongs to another process by now. Where
// the system has process descriptors, nothing can come in between.
func (p process) signal(sig unix.Signal) {
	handle, err := os.FindProcess(p.pid)
	if err != nil {
		return
	}
	defer func() { _ = handle.Release() }()
	if now, ok := lookup(p.pid); ok && now.start == p.start {
		_ = handle.Signal(sig) // fails when it has ended
	}
}

// members finds the living processes of a run whose shim is gone. A process is
// a member only by evidence: it is the recorded agent, has the run's mark in
// its environment, has the run's output open for writing, was a member before,
// or is a child of a member, or in the session of one. A process ID alone
// proves nothing.
type members struct {
	id    identity
	dir   string         // of the run
	known map[int]uint64 // start times of those found last, by process ID
	at    time.Time      // when that was

	// Start times of those that showed no evidence, by process ID. They never
	// become members, since whatever a member forks has another process ID, so
	// their environments and open files are read once. Only the living ones
	// are kept. A process that may not be read, as one of another user, is not
	// among them: it may change its user, so each find tries to open its files.
	strangers map[int]uint64
}

// find returns the members that live now.
func (m *members) find() []process {
	var all []process
	ours := make(map[int]process)
	add := func(p process) bool {
		_, known := ours[p.pid]
		if !known {
			ours[p.pid] = p
		}
		return !known
	}
	this := m.id.Boot == bootID()
	strangers := make(map[int]uint64, len(m.strangers))
	for p := range processes() {
		if p.dead || p.kernel || p.pid == os.Getpid() {
			continue
		}
		all = append(all, p)
		start, known := m.known[p.pid]
		began, stranger := m.strangers[p.pid]
		switch {
		case known && start == p.start, this && m.id.Agent == p.pid && m.id.Start == p.start:
			add(p)
			continue
		case this && p.start < m.id.Start: // before the agent
			continue
		case stranger && began == p.start:
			strangers[p.pid] = p.start
			continue
		}
		switch member, sure := m.look(p.pid); {
		case member:
			add(p)
		case sure:
			strangers[p.pid] = p.start
		}
	}
	m.strangers = strangers
	for more := true; more; {
		more = false
		// Of sessions and groups that have a member: those of the shim and the
		// agent, and those that a member made. While they live they keep
		// their number, so the others in there are no strangers.
		sessions, groups := make(map[int]bool), make(map[int]bool)
		for _, p := range ours {
			_, led := ours[p.session]
			sessions[p.session] = sessions[p.session] || led || this && p.session == m.id.Session
			groups[p.group] = groups[p.group] || this && p.group == m.id.Agent
		}
		for _, p := range all {
			_, child := ours[p.parent]
			if child || p.session != 0 && sessions[p.session] || p.group != 0 && groups[p.group] {
				more = add(p) || more
			}
		}
	}
	m.known, m.at = make(map[int]uint64, len(ours)), time.Now()
	list := make([]process, 0, len(ours))
	for _, p := range ours {
		m.known[p.pid] = p.start
		list = append(list, p)
	}
	return list
}

// look reports whether the environment or the open files of a process are
// evidence, and whether that is sure: what cannot be read now may be later.
func (m *members) look(pid int) (member, sure bool) {
	sure = true
	if m.id.Mark != "" {
		if member, sure = hasVariable(pid, markVariable+"="+m.id.Mark); member {
			return true, true
		}
	}
	member, listed := writes(pid, m.dir)
	return member, sure && listed
}

// group returns those of list that are in the agent's process group. Where the
// agent is not known, all are.
func (m *members) group(list []process) (group []process) {
	for _, p := range list {
		if m.id.Agent == 0 || p.group == m.id.Agent {
			group = append(group, p)
		}
	}
	return group
}

// agent reports whether the agent lives. One that was never recorded, since
// its shim was killed in that moment, is the first member that leads a process
// group.
func (m *members) agent() (process, bool) {
	if m.id.Agent == 0 {
		var first process
		for _, p := range m.find() {
			if p.group == p.pid && (first.pid == 0 || p.start < first.start) {
				first = p
			}
		}
		if first.pid == 0 {
			return first, false
		}
		m.id.Agent, m.id.Start, m.id.Boot = first.pid, first.start, bootID()
	}
	p, ok := lookup(m.id.Agent)
	return p, ok && !p.dead && p.start == m.id.Start && m.id.Boot == bootID()
}
