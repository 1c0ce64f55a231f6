package metrics

// Names for tests.
const MaxSeries = maxSeries
