package bus

import (
	"strconv"

	"github.com/nats-io/nats.go"

	"github.com/linesman/linesman/runs"
)

// encodeEntry returns the message that stores e.
func encodeEntry(subject string, e runs.Entry) *nats.Msg {
	h := nats.Header{
		HeaderRecord: []string{string(e.Kind)},
		HeaderTime:   []string{strconv.FormatInt(e.Time, 10)},
	}
	if e.Kind == runs.Out || e.Kind == runs.ErrOut {
		h[HeaderOffset] = []string{strconv.FormatInt(e.Offset, 10)}
	}
	return &nats.Msg{Subject: subject, Header: h, Data: e.Body}
}

// DecodeEntry decodes a message of RAW. If it cannot be decoded, ok is false, and the
// entry has what could be read, such as the time.
func DecodeEntry(h nats.Header, body []byte) (e runs.Entry, ok bool) {
	e = runs.Entry{Kind: runs.Kind(h.Get(HeaderRecord)), Body: body}
	at, err := strconv.ParseInt(h.Get(HeaderTime), 10, 64)
	if err != nil || at < 0 {
		return e, false
	}
	e.Time = at
	if e.Kind == runs.Out || e.Kind == runs.ErrOut {
		e.Offset, err = strconv.ParseInt(h.Get(HeaderOffset), 10, 64)
		if err != nil || e.Offset < 0 || e.Offset > maxOffset {
			return e, false
		}
	}
	return e, e.Kind.Known()
}

// maxOffset prevents overflow in sums of offsets and lengths.
const maxOffset = 1 << 60
