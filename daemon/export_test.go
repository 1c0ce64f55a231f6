package daemon

// Names for tests.
var (
	ErrAgents     = errAgents
	ErrUndetected = errUndetected
)

// ListenError is for tests, too.
type ListenError = listenError
