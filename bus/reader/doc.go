// Package reader reads and watches JetStream streams despite server failures.
//
//	Reader.UpTo, Reader.Follow   every message, in order, once, up to an end or without one
//	  ├─ NewDirect                by batched direct gets, on any replica
//	  └─ NewConsumer              by pull consumers, one after another
//	Background                   an ordered consumer in the background
//	Watch                        the newest message of each subject, then every change
//
// The readers detect and handle: a missing leader, a former leader that does not know
// that it was replaced, a stalled consumer, a lost message, a lagging replica, and a
// stream that was recreated, or restored to an earlier state. They resume at the next
// unread message.
//
// The package knows no subject and no header of linesman, and writes nothing.
package reader

import "errors"

// ErrUnfit reports a server or a stream that does not meet linesman's requirements.
var ErrUnfit = errors.New("this NATS server does not meet the requirements")

// ErrReplaced reports a stream that was recreated, or lost its end.
var ErrReplaced = errors.New("the stream was recreated or restored")
