package runs

import "github.com/linesman/linesman/bounds"

// Progress is the progress of a run.
type Progress struct {
	Percent int `json:"percent"` // 0 to 100; never decreases; 100 only if the run has completed
	Done    int `json:"completed_steps"`
	Total   int `json:"total_steps"`
}

// Todo is the newest to-do list of an agent, as counts of items.
type Todo struct {
	Done  int `json:"completedSteps"`
	Total int `json:"totalSteps"`
}

// steps counts the steps of a run other than tool calls.
type steps struct {
	Turns int64 `json:"turns,omitempty"` // started turns
	Other int64 `json:"other,omitempty"` // items other than tool calls: messages, reasoning
	Todo  *Todo `json:"todo,omitempty"`  // nil: no list with items was seen
}

// Limits of the percentage of a run that has not ended.
const (
	maxTurnPercent = 95 // before a turn is completed
	maxRunPercent  = 99 // before the run has ended
)

// foldSteps folds the facts about steps and the current activity.
func (r *Record) foldSteps(f *Facts) {
	if f.Turn == TurnStarted {
		r.Steps.Turns++
	}
	if f.Step {
		r.Steps.Other++
	}
	if f.Todo != nil && f.Todo.Total > 0 {
		r.Steps.Todo = new(*f.Todo)
	}
	switch {
	case f.Turn == TurnCompleted || f.Turn == TurnFailed:
		r.Activity = ""
	case f.Activity != "":
		r.SetActivity(f.Activity)
	}
	if f.Step || f.Todo != nil || f.Turn != TurnNone || f.Opened.ID != "" || f.Closed != "" {
		r.updateProgress()
	}
}

// SetActivity sets the current activity, like [Record.Line] with this fact.
func (r *Record) SetActivity(activity string) {
	r.Activity = oneLine(activity[:bounds.Cut(activity, maxActivityRead)], maxActivity)
}

// updateProgress recomputes the progress. It uses the to-do list of the agent if
// there is one. Otherwise each turn and each item is one step, and a step that
// has started but not ended counts half.
func (r *Record) updateProgress() {
	var done, half, total int64
	limit := int64(maxTurnPercent)
	if r.TurnsDone > 0 {
		limit = maxRunPercent
	}
	if todo := r.Steps.Todo; todo != nil {
		done, total, limit = int64(todo.Done), int64(todo.Total), maxRunPercent
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
	percent := min((100*(2*done+half)+total)/(2*total), limit)
	r.Progress.Percent = max(r.Progress.Percent, int(percent))
	r.Progress.Done, r.Progress.Total = int(done), int(total)
}

// endProgress clears the activity and sets the percentage of a completed run.
func (r *Record) endProgress() {
	r.Activity, r.Doing = "", Doing{}
	if r.State != StateCompleted {
		return
	}
	if r.Progress == nil {
		r.Progress = new(Progress)
	}
	r.Progress.Percent = 100
}
