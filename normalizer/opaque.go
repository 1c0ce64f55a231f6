package normalizer

import "github.com/linesman/linesman/normalizer/scan"

// Opaque returns a backend for an agent of an unknown kind. It counts lines, and
// publishes none of their content.
func Opaque(agent string) Backend { return opaque(agent) }

type opaque string

func (o opaque) Agent() string  { return string(o) }
func (opaque) Dialect() Dialect { return opaqueDialect{} }

type opaqueDialect struct{ Stateless }

func (opaqueDialect) Line(line []byte, out *Out) Fault {
	if fault := ScanFault(scan.Fields(line, nil)); fault != NoFault {
		return fault
	}
	out.Unknown()
	return NoFault
}
