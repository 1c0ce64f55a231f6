package normalizer

import (
	"github.com/linesman/linesman/normalizer/scan"
)

// Opaque reads an agent that no backend is for: what it says is counted, and
// nothing of it shown.
func Opaque(agent string) Backend { return opaque(agent) }

type opaque string

func (o opaque) Agent() string    { return string(o) }
func (o opaque) Dialect() Dialect { return o }

func (o opaque) Line(line []byte, out *Out) Fault {
	var s scan.Scanner
	s.Reset(line)
	s.Skip()
	switch s.End() {
	case scan.InvalidUTF8:
		return InvalidUTF8
	case scan.InvalidJSON:
		return InvalidJSON
	}
	out.Facts.Unknown = true
	out.Event(Event{Kind: Unknown})
	return NoFault
}

func (o opaque) State() ([]byte, error) { return []byte("null"), nil }
func (o opaque) Restore([]byte) error   { return nil }
