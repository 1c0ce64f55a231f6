package worker

import (
	"cmp"
	"errors"
	"os"
	"slices"
	"strings"
	"time"

	"golang.org/x/sys/unix"
)

// markVariable is set in the environment of an agent, to a random value of the
// run. All descendants inherit it, unless they clear their environment.
const markVariable = "_LINESMAN_MARK"

// InAgent reports whether the calling process, whose environment is environ,
// is a descendant of an agent: then its children are killed with that agent.
// An agent may start a program with few variables, such as an MCP server, so
// the ancestors are checked too, on systems that show the environments of
// other processes.
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

// identity identifies the processes of a run, also without its shim. It is the
// content of the started file: one JSON value written before the agent starts,
// and a second one with the agent's process right after.
type identity struct {
	Mark    string `json:"mark,omitempty"`    // value of markVariable
	Boot    string `json:"boot,omitempty"`    // boot ID of the machine
	Session int    `json:"session,omitempty"` // session of the shim; 0: the shim has no session of its own
	Agent   int    `json:"agent,omitempty"`   // process ID of the agent, and ID of its process group
	Start   uint64 `json:"start,omitempty"`   // start time of the agent, in the unit of the system
	File    *inode `json:"file,omitempty"`    // the started file itself: that of a copied directory is another one
}

// process is an entry of the process table.
type process struct {
	pid, parent, group, session int

	start  uint64 // together with pid it identifies a process since boot
	dead   bool   // exited, not reaped
	halted bool   // stopped by a signal
	kernel bool   // a kernel thread, without environment and open files
}

// signal sends sig, unless the process ID is in use by another process now. On
// systems with process descriptors there is no race.
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

// members finds the running processes of a run whose shim is gone. A process
// is a member only with evidence: it is the recorded agent, has the run's mark
// in its environment, has the run's output open for writing, was a member
// before, or is a child of a member or in the session of one. A process ID
// alone is no evidence.
type members struct {
	id    identity
	dir   string         // of the run
	known map[int]uint64 // start times of the members found last, by process ID
	at    time.Time      // time of the last find

	// Start times of processes without evidence, by process ID. They never become
	// members, because a process that a member forks has another process ID, so
	// their environments and open files are read only once. Only running ones are
	// kept. A process that cannot be read, for example of another user, is not
	// included: it may change its user, so each find tries again.
	unrelated map[int]uint64

	// The last find met a young process without an environment. That of a member
	// is empty for a moment during exec, too, so it may be one.
	unclear bool
}

// errNoEnvironment: a process shows none.
var errNoEnvironment = errors.New("no environment")

// find returns the running members.
func (m *members) find() []process {
	sameBoot := m.id.Boot == bootID()
	all, found := m.scan(sameBoot)
	for m.addRelatives(found, all, sameBoot) {
	}
	m.known, m.at = make(map[int]uint64, len(found)), time.Now()
	list := make([]process, 0, len(found))
	for _, p := range found {
		m.known[p.pid] = p.start
		list = append(list, p)
	}
	return list
}

// scan returns all running processes, and by process ID the members with
// evidence of their own. sameBoot tells whether the recorded start times and
// process IDs are valid.
func (m *members) scan(sameBoot bool) (all []process, found map[int]process) {
	found = make(map[int]process)
	unrelated := make(map[int]uint64, len(m.unrelated))
	m.unclear = false
	for p := range processes() {
		if p.dead || p.kernel || p.pid == os.Getpid() {
			continue
		}
		all = append(all, p)
		start, known := m.known[p.pid]
		switch {
		case known && start == p.start, sameBoot && m.id.Agent == p.pid && m.id.Start == p.start:
			found[p.pid] = p
			continue
		case sameBoot && p.start < m.id.Start: // before the agent
			continue
		}
		if start, seen := m.unrelated[p.pid]; seen && start == p.start {
			unrelated[p.pid] = p.start
			continue
		}
		const young = time.Second // an exec takes milliseconds, but on a busy machine
		switch member, err := m.examine(p.pid); {
		case member:
			found[p.pid] = p
		case err == nil:
			unrelated[p.pid] = p.start
		case errors.Is(err, errNoEnvironment) && p.age() < young:
			m.unclear = true
		}
	}
	m.unrelated = unrelated
	return all, found
}

// addRelatives adds to found the children of members, and the processes in the
// sessions and groups of members. It reports whether there were any.
func (m *members) addRelatives(found map[int]process, all []process, sameBoot bool) (added bool) {
	// Sessions and groups that contain a member: those of the shim and the
	// agent, and those that a member created. Their IDs are not reused while
	// they exist, so all processes in them are members.
	sessions, groups := make(map[int]bool), make(map[int]bool)
	for _, p := range found {
		_, led := found[p.session]
		sessions[p.session] = sessions[p.session] || led || sameBoot && p.session == m.id.Session
		groups[p.group] = groups[p.group] || sameBoot && p.group == m.id.Agent
	}
	for _, p := range all {
		if _, known := found[p.pid]; known {
			continue
		}
		_, child := found[p.parent]
		if child || p.session != 0 && sessions[p.session] || p.group != 0 && groups[p.group] {
			found[p.pid], added = p, true
		}
	}
	return added
}

// examine reports whether the environment or the open files of a process are
// evidence. If they cannot be read, it returns the error.
func (m *members) examine(pid int) (member bool, err error) {
	if m.id.Mark != "" {
		if member, err = hasVariable(pid, markVariable+"="+m.id.Mark); member {
			return true, nil
		}
	}
	member, errFiles := writesOutput(pid, m.dir)
	return member, cmp.Or(err, errFiles)
}

// group returns the processes of list in the process group of the agent, or
// all of them if the agent is unknown.
func (m *members) group(list []process) (group []process) {
	for _, p := range list {
		if m.id.Agent == 0 || p.group == m.id.Agent {
			group = append(group, p)
		}
	}
	return group
}

// agent returns the process of the agent, and whether it is running. If the
// shim was killed before it recorded the agent, the agent is the oldest member
// that leads a process group.
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
