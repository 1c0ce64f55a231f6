package snapshot

// Names for tests.
var (
	ErrNoGit    = errNoGit
	ErrTooLarge = errTooLarge
)
