package normalizer

// Names for tests.
const DefaultMaxLine = defaultMaxLine
