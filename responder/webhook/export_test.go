package webhook

import "time"

// Hurry shortens how long a request may take.
func (p *Pusher) Hurry(timeout time.Duration) { p.sender.timeout = timeout }
