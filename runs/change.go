package runs

import "errors"

// Change is a change of the record of one run, or of the state of the watch.
type Change struct {
	Run      Header
	Revision uint64 // of the record; increases with every change of any run
	Removed  bool   // the record was deleted; only Run.ID is set
	Last     bool   // no newer change is known at present
	Replaced bool   // the run table was recreated: discard all earlier changes
	Waits    string // reason for a delay, for people; all other fields are empty
}

// Event is an event as it is stored, with its origin.
type Event struct {
	Seq        uint64 // in EVENTS
	Agent, Run string
	Token      string // of its kind
	Time       int64  // of the line, Unix milliseconds
	Stored     int64  // when EVENTS stored it, Unix milliseconds; 0: not known
	Line       uint64 // of the output, from 1; 0: of no line
	Part       int    // counts the events of the line, from 1
	Raw        uint64 // in RAW, of the entry that it came from
	Body       []byte // JSON
}

// Selection selects stored events. Its zero value is all of them.
type Selection struct {
	Agent, Run string
	Runs       []string // any of them, up to Last; none: all. Not with Run or Follow
	Last       uint64   // the last sequence of a reading with Runs
	Tokens     []string // kinds; none: all
	After      uint64   // only those after this sequence
	Since      Time     // only those that were stored then or later
	Follow     bool     // continue with new events
	Want       int      // about how many are wanted, so that not many more are read; 0: not known

	// Made is when EVENTS was created: with another one, or one that ends before After, the reading ends with
	// [ErrReplaced]. 0: it may be any, and to follow goes on with a new one.
	Made int64
}

// ErrReplaced reports that the stream of events is not the one that was asked for.
var ErrReplaced = errors.New("the stream of events was recreated, or lost its end")

// EventsEnd is where EVENTS ends.
type EventsEnd struct {
	Last       uint64 // sequence of the last event
	Completion uint64 // that of the completion of a run; 0: there is none
	Made       int64  // when the stream was created, Unix nanoseconds
}

// Excerpt is the content of an output stream of an agent: all of it, or its
// beginning and its end.
type Excerpt struct {
	Head, Tail []byte
	Size       int64 // length of the stream in bytes
}

// Whole reports whether the excerpt contains the entire stream.
func (e Excerpt) Whole() bool { return e.Size == int64(len(e.Head)) }

// Heartbeat is the periodic heartbeat of a worker process.
type Heartbeat struct {
	ID      string   `json:"id"`   // of the process: a worker can have several processes
	Name    string   `json:"name"` // of the worker, as in start entries
	Version string   `json:"version,omitempty"`
	Queue   string   `json:"queue,omitempty"` // "": accepts no tasks
	Slots   int      `json:"slots"`
	Busy    int      `json:"busy"`             // running tasks
	Agents  []string `json:"agents,omitempty"` // kinds whose programs it finds

	AgentVersions map[string]string `json:"agent_versions,omitempty"` // by kind, as far as known
	// Capabilities are those of its tasks by the kind of their agent, sorted: see the constants that begin with Can.
	Capabilities map[string][]string `json:"capabilities,omitempty"`

	// Host is the name of the machine, and Roots are the directories in and below which tasks
	// may work, see [BoundRoots]; none: unknown.
	Host  string   `json:"host,omitempty"`
	Roots []string `json:"roots,omitempty"`

	Modes []string `json:"modes,omitempty"` // modes of tasks that the worker allows; none: unknown
}

// Limits of the roots of a heartbeat.
const (
	maxRoots     = 64
	maxRootBytes = 16 << 10
)

// BoundRoots returns the roots for a heartbeat: all of them, or none if they are too many.
func BoundRoots(roots []string) []string {
	size := 0
	for _, root := range roots {
		size += len(root)
	}
	if len(roots) > maxRoots || size > maxRootBytes {
		return nil
	}
	return roots
}

// The reasons why a request about a run fails.
var (
	ErrNoRun     = errors.New("there is no such run")
	ErrKnownRun  = errors.New("there is a run of this id already")
	ErrQueueFull = errors.New("the work queue is full")
	ErrNoOwner   = errors.New("no worker has the run")
	ErrBadRecord = errors.New("the record of the run is damaged")
	// ErrFilling refuses a command while the owner fills a raw log again that was lost: whoever reads it now does not
	// know what the run is at. The caller asks again.
	ErrFilling = errors.New("the raw log of the run is being filled again")

	// ErrOpen reports a run that cannot be forgotten because it has not ended, or
	// its task has not.
	ErrOpen = errors.New("the run has not ended, or its task has not")
	// ErrNeeded reports a run that cannot be forgotten yet because its task ended
	// with it: without it an earlier run of the task would await resumption again.
	ErrNeeded = errors.New("its task ended with it")
)

// Forgotten counts what was erased of a run.
type Forgotten struct {
	Run      string `json:"run,omitempty"`
	Entries  uint64 `json:"entries"`  // of its raw log
	Events   uint64 `json:"events"`   // including the completion
	Record   bool   `json:"record"`   // whether there was one
	Requests uint64 `json:"requests"` // stored with an idempotency key
	Notices  uint64 `json:"notices"`  // undelivered notifications
}
