package daemon

// Names for tests.
var (
	ErrAgents     = errAgents
	ErrUndetected = errUndetected
)
