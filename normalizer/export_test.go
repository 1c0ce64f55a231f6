package normalizer

// Names for tests.
const (
	DefaultMaxLine = defaultMaxLine
	MaxState       = maxState
	Unknown        = unknownLine
	Error          = errorLine
)
