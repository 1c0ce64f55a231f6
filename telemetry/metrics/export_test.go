package metrics

// Names for tests.
const MaxSeries = maxSeries

var Reasons = reasons

// Responder is for tests, too.
type Responder = responder
