package bounds

// Names for tests.
var (
	AppendValue = appendValue
	ErrUTF8     = errUTF8
	ErrRange    = errRange
)
