package reader

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
		err := Followed(&jetstream.StreamInfo{Cluster: c.cluster})
		if (err == nil) != c.want || err != nil && !errors.Is(err, errUnfollowed) {
			t.Errorf("%s: %v, want believed: %t", c.name, err, c.want)
		}
	}
}
