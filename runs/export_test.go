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
	MaxContext      = maxLabelValue
	MayNeedAfter    = mayNeedAfter
	NoNeed          = noNeed
	MaxDetail       = maxDetail
	MaxRecord       = maxRecord
)

// ReadOutput reads all that [ReadParts] can, but a line of totals alone.
func ReadOutput(output []byte, failed bool) Findings {
	return ReadParts(output, Parts{Failed: failed, Summaries: true, Message: failed})
}
