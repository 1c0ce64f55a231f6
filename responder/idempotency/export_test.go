package idempotency

// Claim is for tests.
type Claim = claim
