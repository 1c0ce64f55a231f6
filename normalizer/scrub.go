package normalizer

// Scrubbed returns a backend that applies scrub to the texts and messages of all
// events and to the final text. Other texts in the run record are always
// redacted. Scrub must be deterministic, so that a replay results in the same
// events.
func Scrubbed(b Backend, scrub func(string) string) Backend { return scrubbed{b, scrub} }

type scrubbed struct {
	Backend
	scrub func(string) string
}

func (s scrubbed) Dialect() Dialect { return scrubbedDialect{s.Backend.Dialect(), s.scrub} }

type scrubbedDialect struct {
	Dialect
	scrub func(string) string
}

func (d scrubbedDialect) Line(line []byte, out *Out) Fault {
	fault := d.Dialect.Line(line, out)
	if fault != NoFault {
		return fault
	}
	scrubbed := func(s *string) *string {
		if s == nil {
			return nil
		}
		if c := d.scrub(*s); c != *s {
			return &c
		}
		return s
	}
	for i := range out.events {
		e := &out.events[i]
		e.Text, e.Message = scrubbed(e.Text), scrubbed(e.Message)
	}
	out.text = d.scrub(out.text)
	return NoFault
}
