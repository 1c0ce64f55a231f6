package webhook

import "time"

// Sign is the signature of a body.
var Sign = sign

// Hurry shortens how long a request may take.
func (p *Pusher) Hurry(timeout time.Duration) { p.sender.timeout = timeout }

// Pace shortens the pauses after failures.
func (p *Pusher) Pace(pace time.Duration) { p.hosts.pace = pace }

// Names for tests.
type (
	Registrations = registrations
	Outbox        = outbox
	Notice        = notice
)

// MaxRegistrations is for tests, too.
const MaxRegistrations = maxRegistrations

// Patience is how long a notification may be in a crowded outbox.
func (p *Pusher) Patience(d time.Duration) { p.patience = d }
