// Package reader reads and watches JetStream streams, whatever happens to the
// servers that hold them.
//
//	Direct  batched direct gets, on any replica   ─┐
//	Tail    one consumer after another, to an end ─┼─▶ every message, in order, once
//	Ordered one consumer, in the background       ─┘
//	Watch   the newest message of each subject, and what changes
//
// A leader may be gone, or not know that it is one no more; a consumer may
// stall; a message may be lost on its way; a replica may lag; a stream may be
// deleted and made again, or restored without its end. The readers find out, and
// read on from where they were.
//
// The package knows no subject and no header of linesman. It writes nothing.
package reader

import "errors"

// ErrUnfit reports a server, or a stream, that linesman cannot work with.
var ErrUnfit = errors.New("this NATS server will not do")

// ErrReplaced reports a stream that was made anew, or lost its end.
var ErrReplaced = errors.New("a stream was made anew")
