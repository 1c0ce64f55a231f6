package runs

// Names for tests.
const (
	MaxID           = maxID
	MaxLabels       = maxLabels
	MaxLabelKey     = maxLabelKey
	MaxLabelValue   = maxLabelValue
	MaxOpenCalls    = maxOpenCalls
	MaxFinalText    = maxFinalText
	MaxErrorMessage = maxErrorMessage
	MaxSuggestions  = maxSuggestions
	MaxLocations    = maxLocations
	MaxPaths        = maxPaths
	MaxFailedTests  = maxFailedTests
	MaxSummary      = maxSummary
	MaxActivity     = maxActivity
	MaxCloudTask    = maxCloudTask
	MaxWorker       = maxWorker
	Redacted        = redacted
	NeedsAgent      = needsAgent
)
