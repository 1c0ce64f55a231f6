package security

import (
	"testing"

	"github.com/linesman/linesman/bus"
	"github.com/linesman/linesman/bus/bucket"
)

// The lease and the position of the exporter, and the key of health checks, can be written by the users who can write
// other leases, and by no other user.
func TestKeysOfResponders(t *testing.T) {
	t.Parallel()
	p := embeddedServer(t)
	for _, key := range []string{bus.TelemetryLease, bus.TelemetryPosition, bus.HealthKey} {
		for _, user := range users {
			want := p.ask(t, user, bucket.Subject(names.State(), bus.PushLease), nil, "{}").verdict
			if got := p.ask(t, user, bucket.Subject(names.State(), key), nil, "{}").verdict; got != want {
				t.Errorf("%s writes %s: %s, want %s", user, key, got, want)
			}
		}
	}
}
