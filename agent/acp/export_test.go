package acp

// Names for tests.
const (
	MaxPath  = maxPathBytes
	MaxRules = maxRules
)
