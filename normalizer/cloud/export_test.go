package cloud

// Names for tests.
const Agent = kind
