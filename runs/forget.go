package runs

import "errors"

// ErrOpen reports a run that cannot be forgotten, since it has not ended, or
// its task has not.
var ErrOpen = errors.New("the run has not ended, or its task has not")

// ErrNeeded reports a run that cannot be forgotten yet, since it is how its
// task ended: without it an earlier run of the task would wait again.
var ErrNeeded = errors.New("its task ended with it")

// Forgotten is how much was erased of a run.
type Forgotten struct {
	Entries  uint64 `json:"entries"`  // of its raw log
	Events   uint64 `json:"events"`   // the completion being one
	Record   bool   `json:"record"`   // there was one
	Requests uint64 `json:"requests"` // remembered with an idempotency key
	Notices  uint64 `json:"notices"`  // that waited for their receivers
}
