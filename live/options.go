package live

import (
	"cmp"
	"strings"

	"github.com/linesman/linesman/runs"
)

// options are the mode and the model of a session.
type options struct {
	Mode  string `json:"mode,omitempty"`
	Model string `json:"model,omitempty"`
}

// Mode returns the mode of the run, which people may have changed.
func (c *Conversation) Mode() runs.Mode { return cmp.Or(runs.Mode(c.s.Wants.Mode), c.config.Task.Mode) }

// wants returns what the session is to have, the mode as that of the agent; "": what the agent has.
func (c *Conversation) wants() options {
	return options{c.config.Agent.Mode(string(c.Mode())), cmp.Or(c.s.Wants.Model, c.config.Task.Model)}
}

// choose makes the next request of an option due that the session does not have; false: it has all.
func (c *Conversation) choose() bool {
	switch wants, has := c.wants(), &c.s.Has; {
	case wants.Mode != has.Mode:
		c.call(doMode, wants.Mode)
	case wants.Model != has.Model:
		c.call(doModel, wants.Model)
	default:
		return false
	}
	return true
}

// chooses reports whether an option is being set.
func (c *Conversation) chooses() bool { return c.expects(doMode) || c.expects(doModel) }

// change makes what people have changed due, once no turn runs.
func (c *Conversation) change() {
	if s := &c.s; s.Ready && s.Alive && !s.Running && s.Outcome == nil && !c.chooses() {
		c.choose()
	}
}

// chosen folds the response to the request of an option, and reports whether the conversation goes on. The session is
// never used in a mode that the agent did not confirm.
func (c *Conversation) chosen(answered item, told string) bool {
	s := &c.s
	if answered.Do == doMode {
		if s.Mode = cmp.Or(told, s.Mode, answered.Value); s.Mode != answered.Value {
			c.refused("the agent did not confirm the mode " + answered.Value)
			return false
		}
		s.Has.Mode = answered.Value
		return true
	}
	s.Has.Model = answered.Value
	c.tellMode(told)
	return s.Outcome == nil
}

// refusesOptions returns why a command that sets options has no effect; "": it has.
func (c *Conversation) refusesOptions(cmd *runs.Command) string {
	switch mode := cmd.Mode; {
	case mode == "" && cmd.Model == "" || len(cmd.Model) > runs.MaxModel:
		return runs.WhyUnfit
	case mode != "" && c.config.Agent.Mode(string(mode)) == "":
		return runs.WhyFixed
	case mode != "" && !mode.Within(c.config.Task.Mode):
		return runs.WhyCeiling
	}
	return ""
}

// set folds a command that sets options. They are due when no turn runs; the mode is that of the policy at once.
func (c *Conversation) set(cmd *runs.Command) bool {
	if c.refuses(cmd) != "" {
		return false
	}
	if cmd.Mode != "" && c.s.Mode != "" { // the agent may have left the one that it confirmed
		c.s.Has.Mode = c.s.Mode
	}
	w := &c.s.Wants
	w.Mode, w.Model = cmp.Or(string(cmd.Mode), w.Mode), cmp.Or(cmd.Model, w.Model)
	return true
}

// tellMode folds that the agent tells its mode. One that may do more than that of the run ends the turn.
func (c *Conversation) tellMode(mode string) {
	s := &c.s
	if mode == "" || s.Outcome != nil {
		return
	}
	if s.Mode = mode; (s.Ready || c.expects(doModel)) && !c.expects(doMode) && !c.within(mode) {
		c.stop(outcome{State: TurnFailed, Why: "the agent left its mode"})
	}
}

// within reports whether a mode of the agent is at most that of the session.
func (c *Conversation) within(mode string) bool {
	may := c.Mode()
	if c.s.Has.Mode == "" || mode == c.s.Has.Mode || may == runs.DangerFull ||
		mode == "plan" || strings.HasSuffix(mode, "#plan") {
		return true
	}
	for _, m := range runs.Modes {
		if m.Within(may) && mode == c.config.Agent.Mode(string(m)) {
			return true
		}
	}
	return false
}
