package embedded

import (
	"encoding/json"
	"fmt"
	"path/filepath"
	"time"

	"go.uber.org/zap"
)

// hold suspends the retention of RAW if entries would expire that no normalizer has read,
// because no server was running for about that time: the server removes old messages as it
// starts. It reports whether RAW is without a retention, from this or an earlier start.
func (v verifier) hold(all []*storedStream) (held bool, err error) {
	for _, s := range all {
		if s.name != v.names.Raw() || s.hash == nil {
			continue
		}
		if s.badMeta || s.noMeta { // a kill during a change of them does that, too
			return true, nil
		}
		age, _, err := s.maxAge()
		if err != nil {
			return false, fmt.Errorf("stream %s: %w", s.name, err)
		}
		if age == 0 || !v.holds(s, age) {
			return age == 0, nil
		}
		v.log.Info("RAW is kept until it has been read", zap.Duration("away", v.away(s).Round(time.Second)),
			zap.Duration("max_age", age))
		return true, s.change("max_age", 0, s.dir)
	}
	return false, nil
}

// holds reports whether [verifier.hold] suspends a maximum age of RAW.
func (v verifier) holds(raw *storedStream, age time.Duration) bool {
	return raw.newest != 0 && v.away(raw) >= age/2
}

// maxAge returns the maximum age of what is in a stream, 0: none. Without settings it is unknown.
func (s *storedStream) maxAge() (age time.Duration, known bool, err error) {
	meta, err := readIfThere(filepath.Join(s.dir, metaFile))
	if err != nil || meta == nil {
		return 0, false, err
	}
	var settings struct {
		MaxAge time.Duration `json:"max_age"`
	}
	if err := json.Unmarshal(meta, &settings); err != nil {
		return 0, false, fmt.Errorf("%s: %w", metaFile, err)
	}
	return settings.MaxAge, true, nil
}

// away returns for how long nothing was stored in a stream: what is unread was stored shortly before the end of the
// last server.
func (v verifier) away(s *storedStream) time.Duration { return v.now.Sub(time.Unix(0, s.newest)) }

// HoldRaw makes RawHeld return true if entries would expire unread by an age that RAW is to get; 0: none.
func (s *Server) HoldRaw(age time.Duration) {
	if age > 0 && s.rawAway >= age/2 {
		s.rawHeld.Store(true)
	}
}

// RawHeld reports whether RAW must be without its maximum age, so that entries do
// not expire before the normalizer has read them. Once it has, call ReleaseRaw, and then
// [bus.Bus.Ensure], which configures the age again.
func (s *Server) RawHeld() bool { return s.rawHeld.Load() }

// ReleaseRaw makes RawHeld return false.
func (s *Server) ReleaseRaw() { s.rawHeld.Store(false) }
