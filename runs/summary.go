package runs

import "cmp"

// Summary is what is known of a run in lists. It has nothing that a caller who may read runs
// must not see: no prompt, no output.
type Summary struct {
	ID string `json:"run"` // id of the run
	Attributes
	State           State  `json:"state"`
	Source          string `json:"source,omitempty"` // how the run came to linesman
	Worker          string `json:"worker,omitempty"` // worker that owns or owned the run
	Queue           string `json:"queue,omitempty"`  // work queue of the run
	CancelRequested bool   `json:"cancelRequested,omitempty"`
	Reason          string `json:"reason,omitempty"`    // why the run failed, timed out or waits, in a word
	Continues       string `json:"continues,omitempty"` // first run of the task that this run resumes
	QueuedAt        Time   `json:"queuedAt,omitzero"`
	StartedAt       Time   `json:"startedAt,omitzero"`
	ActiveAt        Time   `json:"activeAt,omitzero"` // time of the last output
	EndedAt         Time   `json:"endedAt,omitzero"`
	Progress        *Todo  `json:"progress,omitempty"` // newest to-do list of the agent; absent: it keeps none
	Activity        string `json:"activity,omitempty"` // for people: what the agent does, with the command or the path
	Doing           *Doing `json:"doing,omitempty"`    // what the agent is doing; absent: unknown, or not working
	// Questions are the ids of the questions of a live run that people are asked, the oldest first.
	Questions []string `json:"questions,omitempty"`
	Turn      int      `json:"turn,omitempty"`         // of a run that takes messages: number of its newest turn, from 1
	Tokens    *Spend   `json:"tokens,omitempty"`       // tokens of this run so far; absent: unknown
	Version   string   `json:"agentVersion,omitempty"` // version of the agent; absent: unknown
	// What the times of the run and its events are: when the agent wrote its output and ended, or when linesman
	// read the output. Absent for runs without an agent's process or output.
	Times Times `json:"times,omitempty"`

	Changed *Changed `json:"changed,omitempty"` // files that the run changed; absent: unknown, or none is reported
	Brief

	Seq uint64 `json:"seq"` // sequence number in RAW of the last entry that this is based on

	// What depends on other runs and on the workers. A record does not have it.

	Position    *int   `json:"position,omitempty"`    // of a queued run: the number of runs before it
	ContinuedBy string `json:"continuedBy,omitempty"` // newest run that resumes this task, whose state is that of the task
	WorkerLost  bool   `json:"workerLost,omitempty"`  // the run is working, but its worker sends no heartbeats
	Unseen      bool   `json:"unseen,omitempty"`      // it ended in the last 7 days, and its owner has not opened it since
}

// Asks returns the ids of the questions that can be answered now: Questions, or q1 for the prompt of a request of a
// file bridge.
func (s Summary) Asks() []string {
	if s.Agent == AgentExternal && s.State == StateInputRequired {
		return []string{"q1"}
	}
	return s.Questions
}

// AwaitsMessage reports whether a turn of a live run has ended, and people are to send the message of the next one.
func (s Summary) AwaitsMessage() bool {
	return s.Turn > 0 && s.State == StateInputRequired && len(s.Questions) == 0
}

// Need returns whether the run needs a person at now, in Unix milliseconds.
func (s Summary) Need(now int64) Need {
	if s.AwaitsMessage() {
		return NeedsPrompt
	}
	d := s.does()
	return d.Need(s.State, now)
}

// does returns what the agent is doing; the zero value: not known, or not working.
func (s Summary) does() Doing {
	if s.Doing == nil {
		return Doing{}
	}
	return *s.Doing
}

// Before is the number of runs before a queued one, 0 for others.
func (s Summary) Before() int {
	if s.Position == nil {
		return 0
	}
	return *s.Position
}

// Plan returns the newest to-do list of the agent; without items: it keeps none.
func (s Summary) Plan() Todo {
	if s.Progress == nil {
		return Todo{}
	}
	return *s.Progress
}

// Times is what the times of a run and of its events are.
type Times string

// The kinds of times.
const (
	written  Times = "written"  // when the agent wrote its lines, and when it ended
	Captured Times = "captured" // when linesman read the lines
)

// The sources of a run, in [Start] and [Summary].
const (
	SourceRun   = "run"   // an agent started by a command
	SourceQueue = "queue" // an agent started for a submission
	SourcePipe  = "pipe"  // the output of another program, copied to a spool
	SourceTail  = "tail"  // a file of another program, read in place
	// The log of a session. A person may sit at the agent, see [Start.Person].
	SourceSession = "session"
	sourceCloud   = "cloud" // a task in a cloud service
)

// timesOf returns what the times of a run are; "": the run has no agent here.
func (r *Record) timesOf() Times {
	switch {
	case r.WrittenAt > 0: // the log of a session tells them
		return written
	case r.Source == SourceRun, r.Source == SourceQueue:
		return written
	case r.Source == SourceTail, r.Source == SourcePipe, r.Source == SourceSession:
		return Captured
	}
	return ""
}

// Spend are the tokens of a run so far, with those of its sub-agents. See [Record.Spent].
type Spend struct {
	Input  int64 `json:"input"`
	Output int64 `json:"output"`
}

// Header is a summary, and what linesman alone reads. It is stored in a header of the run's record,
// so that a table of many runs can be filled without reading records: see [Header.Text].
type Header struct {
	Summary
	Work  uint64    `json:"work,omitempty"`  // sequence number in the work queue
	Asked bool      `json:"asked,omitempty"` // the agent has not reported Thread: it is the one to resume
	Steps *Progress `json:"steps,omitempty"` // nil: unknown

	// Governance and Type are those of a run without a record, see [Start]. A record contains them.
	Governance string `json:"-"`
	Type       string `json:"-"`
}

// Header returns the header of the record.
func (r *Record) Header() Header {
	h := Header{
		Summary: Summary{
			ID: r.ID, Attributes: r.Attributes, State: r.State, Source: r.Source,
			Queue: r.Queue, Worker: r.Worker, Reason: r.Reason,
			CancelRequested: r.Cancel, Continues: r.Continues, ContinuedBy: r.Link,
			QueuedAt: Time(r.QueuedAt), StartedAt: Time(r.StartedAt), ActiveAt: Time(r.ActiveAt), EndedAt: Time(r.EndedAt),
			Activity: r.Activity, Times: r.timesOf(), Seq: r.Seq,
			Version: r.Version, Changed: r.Changed(), Brief: r.Brief(), Questions: r.put(),
		},
		Work: r.Work, Asked: r.Thread == "" && r.Context() != "",
	}
	if r.Live != nil && r.Live.Keep {
		h.Turn = r.Live.Turn
	}
	h.Thread = r.Context()
	if s := r.Spent(); s.Total != nil && !s.Earlier {
		h.Tokens = &Spend{s.Total.Input, s.Total.Output}
	}
	if r.Progress != nil {
		h.Steps = new(*r.Progress)
	}
	if r.Steps.Todo != nil {
		h.Progress = new(*r.Steps.Todo)
	}
	if r.Doing.Phase != "" && !r.State.Final() {
		h.Doing = new(r.Doing)
	}
	return h
}

// CreatedAt is when a run was queued, or else began.
func (h Header) CreatedAt() Time { return cmp.Or(h.QueuedAt, h.StartedAt) }

// Begun is when a run began, or else when it was queued, or ended; Unix milliseconds.
func (h Header) Begun() int64 { return int64(cmp.Or(h.StartedAt, h.QueuedAt, h.EndedAt)) }

// Lasted is how many milliseconds a run that has ended took; 0 for one that
// was never started.
func (h Header) Lasted() int64 {
	if h.StartedAt == 0 {
		return 0
	}
	return int64(max(h.EndedAt-h.StartedAt, 0))
}

// ChangedAt is when a run entered its state.
func (h Header) ChangedAt() Time {
	switch {
	case h.State.Final():
		return cmp.Or(h.EndedAt, h.ActiveAt, h.StartedAt, h.QueuedAt)
	case h.State == StateQueued:
		return h.QueuedAt
	}
	return cmp.Or(h.StartedAt, h.QueuedAt)
}

// Mark returns the mark of the raw log at the time of the header.
func (h Header) Mark() Mark {
	return Mark{
		Seq: h.Seq, Started: h.StartedAt != 0, Cancelled: h.CancelRequested, Exited: h.State.Final() || h.Waits(),
		By: h.Worker, Work: h.Work,
	}
}

// Waits is [Record.Waits].
func (s Summary) Waits() bool { return s.State == StateInputRequired && s.EndedAt != 0 }

// Unowned reports whether the run awaits an answer that no worker gets: it is external, or its program has
// ended. The worker of a live run waits with it.
func (s Summary) Unowned() bool {
	return s.State == StateInputRequired && (s.Source == SourceExternal || s.EndedAt != 0)
}

// FirstHeader returns the header of a run without a record, by the first entry of its log and the sequence
// number of that. The run is queued if the entry says so, else it is working.
func FirstHeader(run, agent string, e Entry, seq uint64) Header {
	r := NewRecord(run, agent)
	r.Seq = seq
	if e.Kind == Queued {
		r.Entry(e)
	} else {
		r.setWorking(max(e.Time, 1))
	}
	h := r.Header()
	h.Governance, h.Type = r.Governance, r.Type
	return h
}
