package metrics

// Names for tests.
const MaxSeries = maxSeries

// Responder is for tests, too.
type Responder = responder
