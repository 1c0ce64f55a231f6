package runtable

// EndOverdue is what keepHouse does once a minute.
var EndOverdue = (*Table).endOverdue

// Names for tests.
type (
	Cancelled = cancelled
	Ticket    = ticket
)
