package bus

import (
	"errors"
	"testing"
	"time"

	"github.com/nats-io/nats.go/jetstream"
)

func TestALeaderThatNobodyFollowsIsNotBelieved(t *testing.T) {
	t.Parallel()
	heard := func(ago ...time.Duration) *jetstream.ClusterInfo {
		c := &jetstream.ClusterInfo{Leader: "a"}
		for _, d := range ago {
			c.Replicas = append(c.Replicas, &jetstream.PeerInfo{Active: d, Offline: d < 0})
		}
		return c
	}
	const gone = -time.Second // offline
	for _, c := range []struct {
		name    string
		cluster *jetstream.ClusterInfo
		want    bool
	}{
		{"a server alone", nil, true},
		{"one copy in a cluster", heard(), true},
		{"both followers", heard(400*time.Millisecond, 900*time.Millisecond), true},
		{"one of them", heard(400*time.Millisecond, time.Minute), true},
		{"one, the other offline", heard(gone, 400*time.Millisecond), true},
		{"none", heard(8*time.Second, 8*time.Second), false},
		{"just too long ago", heard(3*time.Second, 3*time.Second), false},
		{"both offline", heard(gone, gone), false},
		{"one, and none ever of the other", heard(0, 8*time.Second), false},
		{"two of four", heard(1, time.Second, gone, gone), true},
		{"one of four", heard(1, gone, gone, gone), false},
	} {
		err := followed(&jetstream.StreamInfo{Cluster: c.cluster})
		if (err == nil) != c.want || err != nil && !errors.Is(err, errUnfollowed) {
			t.Errorf("%s: %v, want believed: %t", c.name, err, c.want)
		}
	}
}

// Raw logs are read by who goes on behind what it reads: a worker, and the
// normalizer where it had no memory for a long line.
func TestRawLogsAreReadFromTheLeaderAlone(t *testing.T) {
	t.Parallel()
	_, b := serve(t)
	s, err := b.js.Stream(t.Context(), b.Raw())
	if err != nil {
		t.Fatal(err)
	}
	if s.CachedInfo().Config.AllowDirect {
		t.Errorf("%s: a replica that lags may answer", b.Raw())
	}
}
