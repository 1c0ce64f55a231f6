package webhook

import "time"

// Sign is the signature of a body.
var Sign = sign

// Hurry shortens how long a request may take.
func (p *Pusher) Hurry(timeout time.Duration) { p.sender.timeout = timeout }
