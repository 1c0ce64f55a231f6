package acp

import "strings"

// Agent is what an agent does in its own way when it speaks the protocol.
type Agent struct {
	// Program is the name of the program on the PATH, and Args are its arguments. "": the agent does not
	// speak the protocol.
	Program string
	Args    []string
	// Install is the command that installs the program, Login the one that logs in.
	Install, Login string
	// Tested is the version of an adapter that linesman was tested with; "": the program is that of the agent.
	Tested string
	// Auth are the methods of `authenticate` by the variable with the credential that each needs.
	Auth []Auth
	// Modes are the agent's modes by the mode of a task. One that is missing is given by variables or by
	// the policy.
	Modes map[string]string
	// Forgets reports that no other process can continue its session, even if it offers that.
	Forgets bool
	// ModelOption reports that a model is the option "model"; else it is set by `session/set_model`.
	ModelOption bool
	// Tokens is how it tells the tokens of a turn.
	Tokens tokens
	// Apart reports that its input tokens are without those from a cache, ApartThoughts that its output tokens are
	// without those of reasoning.
	Apart, ApartThoughts bool
	// Silent reports that a turn without tokens has failed, though it ends like others: its last text is
	// the error.
	Silent bool
	// ExitCode is the path of the exit code of a command in an update of its call; nil: it is not told.
	// Of a list on the way, the first element counts that has the rest.
	ExitCode []string
	// ToolName is the path of the name of a tool in an update of a call, beside `name`; "title" counts only
	// in the first update of a call that is pending. Nil: it is not told.
	ToolName []string
	// Stdout and Stderr are the paths of what a command has printed; nil: it is in the content. Parts
	// reports that each update has a part of it.
	Stdout, Stderr []string
	Parts          bool
}

// Command is the program and its arguments, nil if there is none.
func (a *Agent) Command() []string {
	if a.Program == "" {
		return nil
	}
	return append([]string{a.Program}, a.Args...)
}

// Package is the npm package that Install installs.
func (a *Agent) Package() string { return a.Install[strings.LastIndexByte(a.Install, ' ')+1:] }

// Auth is a method of `authenticate`.
type Auth struct{ Variable, Method string }

// tokens is how an agent tells tokens.
type tokens uint8

// The ways. noTokens is none.
const (
	noTokens     tokens = iota
	PerTurn             // those of the turn, in the response to the prompt
	PerProcess          // those of the process so far, in the same place
	PerRequest          // those of each request to the model, in updates
	LastRequest         // those of the last request of the turn, in the response to the prompt
	PerTurnQuota        // those of the turn, in `_meta.quota.token_count` of the response
)

// Mode returns the agent's mode for the mode of a task, "" if it has none for it.
func (a *Agent) Mode(mode string) string { return a.Modes[mode] }
