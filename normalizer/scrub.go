package normalizer

// Scrubbed is a backend that runs what its agent says, its texts and its
// messages, through scrub before events and the final text are made of them.
// What the record shows besides is redacted anyway. Scrub must give the
// same for the same text always, or events cannot be made again.
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
	clean := func(s *string) *string {
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
		e.Text, e.Message = clean(e.Text), clean(e.Message)
	}
	out.final = clean(out.final)
	return NoFault
}
