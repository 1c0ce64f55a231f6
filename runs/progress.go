package runs

// Progress is how far a run is.
type Progress struct {
	Percent int `json:"percent"` // 0 to 100; it never falls, and is 100 only once the run has completed
	Done    int `json:"completed_steps"`
	Total   int `json:"total_steps"`
}

// Todo is the newest to-do list of an agent.
type Todo struct {
	Done  int `json:"done"`
	Total int `json:"total"`
}

// Steps is what progress is counted from, beside the tool calls.
type Steps struct {
	Turns int64 `json:"turns,omitempty"` // that began
	Other int64 `json:"other,omitempty"` // items that are no tool calls: messages, thoughts
	Todo  *Todo `json:"todo,omitempty"`  // nil: no list was seen that has items
}

// Nothing says that it is done before it is.
const (
	mostOfTurn = 95 // percent, as long as no turn was completed
	mostOfRun  = 99 // percent, as long as the run has not ended
)

// step folds what a line says of the run's steps.
func (r *Record) step(f *Facts) {
	if f.Turn == TurnStarted {
		r.Steps.Turns++
	}
	if f.Step {
		r.Steps.Other++
	}
	if f.Todo != nil && f.Todo.Total > 0 {
		todo := *f.Todo
		r.Steps.Todo = &todo
	}
	switch {
	case f.Turn == TurnCompleted || f.Turn == TurnFailed:
		r.Activity = ""
	case f.Activity != "":
		r.Activity = oneLine(f.Activity[:border(f.Activity, maxActivityRead)], MaxActivity)
	}
	if f.Step || f.Todo != nil || f.Turn != TurnNone || f.Opened.ID != "" || f.Closed != "" {
		r.advance()
	}
}

// advance counts anew how far the run is. An agent's to-do list says it best.
// Without one every turn and every item is a step, and half of one that has
// only begun counts.
func (r *Record) advance() {
	var done, half, total int64
	top := int64(mostOfTurn)
	if r.TurnsDone > 0 {
		top = mostOfRun
	}
	if todo := r.Steps.Todo; todo != nil {
		done, total, top = int64(todo.Done), int64(todo.Total), mostOfRun
	} else {
		ended := r.TurnsDone + r.TurnsBad
		calls := int64(len(r.OpenCalls)) + r.MoreCalls
		turns := max(r.Steps.Turns-ended, 0)
		done = ended + r.Steps.Other + r.ToolCalls - calls
		half = turns + calls
		total = done + half
	}
	if total <= 0 {
		return
	}
	if r.Progress == nil {
		r.Progress = new(Progress)
	}
	percent := min((100*(2*done+half)+total)/(2*total), top)
	r.Progress.Percent = max(r.Progress.Percent, int(percent))
	r.Progress.Done, r.Progress.Total = int(done), int(total)
}

// arrive notes the end of the run.
func (r *Record) arrive() {
	r.Activity = ""
	if r.State != StateCompleted {
		return
	}
	if r.Progress == nil {
		r.Progress = new(Progress)
	}
	r.Progress.Percent = 100
}
