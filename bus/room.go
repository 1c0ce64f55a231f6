package bus

import (
	"context"
	"fmt"
	"path/filepath"
	"strings"
	"time"

	"github.com/nats-io/nats-server/v2/server"
	"go.uber.org/zap"
	"golang.org/x/sys/unix"
)

// A NATS server acknowledges a message before the file has it. On a full disk
// it loses those, and then refuses all that comes, also once there is room. So
// its streams are closed to writers before the disk is full.
const (
	lookAtRoom   = 100 * time.Millisecond
	lookAtHealth = time.Second

	// mostReserve is what stays free, or a twentieth of the disk where that is
	// less: more than is written between two looks.
	mostReserve = 64 << 20
)

// Room is an error where the server's disk has so little that [Server.Keep]
// would have it take nothing.
func (s *Server) Room() error {
	free, reserve, err := space(s.store)
	if err != nil {
		return fmt.Errorf("embedded server: %w", err)
	}
	if free < reserve {
		return fmt.Errorf("the disk of the data directory is nearly full, or read-only: %d bytes are free, and %d are needed", free, reserve)
	}
	return nil
}

// Keep looks after the room on the server's disk until ctx ends. While there is
// too little of it the streams take nothing, and whoever writes waits, as with
// a RAW that is full. A server that ran into the end of the disk all the same,
// as somebody else took all at once, is started again once there is room. The
// error is that of a server that does not come back.
func (s *Server) Keep(ctx context.Context) error {
	r := &room{server: s, log: s.log.Named("room")}
	tick := time.NewTicker(lookAtRoom)
	defer tick.Stop()
	for {
		if err := r.look(time.Now()); err != nil {
			return fmt.Errorf("embedded server: %w", err)
		}
		select {
		case <-ctx.Done():
			return nil
		case <-tick.C:
		}
	}
}

// room is what was seen of the disk.
type room struct {
	server *Server
	log    *zap.Logger
	before map[string]server.JetStreamAccountLimits // of the accounts, while they are closed; else nil
	on     *server.Server                           // which it closed: one that is started again is open
	asked  time.Time                                // when the server's health was
	again  time.Time                                // not started again before
	pause  time.Duration                            // and then how long after that
}

func (r *room) look(now time.Time) error {
	if !r.server.now().Running() { // it was to start again, and did not: once more, or this is the end
		r.log.Error("the embedded server does not run, and is started again")
		if err := r.server.restart(); err != nil {
			return err
		}
	}
	free, reserve, err := space(r.server.store)
	if err != nil {
		return nil // it may come back; what it means for the server shows there
	}
	return r.act(now, free, reserve)
}

// act does what is needed with so much free, of what should be.
func (r *room) act(now time.Time, free, reserve uint64) error {
	switch closed := r.before != nil; {
	case !closed && free < reserve:
		r.close()
		r.log.Error("the disk of the data directory is nearly full, or read-only: nothing is stored until there is room",
			zap.Uint64("free", free), zap.Uint64("needed", reserve*3/2))
	case closed && free < reserve*3/2:
		if r.server.now() != r.on {
			r.close()
		}
	case closed:
		if err := r.mend(now); err != nil {
			return err
		}
		r.open()
		r.asked = now
		r.log.Info("there is room again", zap.Uint64("free", free))
	case !closed && now.Sub(r.asked) >= lookAtHealth:
		r.asked = now
		return r.mend(now)
	}
	return nil
}

// close has the accounts take nothing more. That writes nothing to the disk.
func (r *room) close() {
	r.on = r.server.now()
	if r.before == nil {
		r.before = map[string]server.JetStreamAccountLimits{}
	}
	for _, name := range []string{InsideAccount, PublicAccount} {
		account, err := r.on.LookupAccount(name)
		if err != nil {
			continue
		}
		limits := account.JetStreamUsage().Limits
		if _, known := r.before[name]; !known {
			r.before[name] = limits
		}
		limits.MaxStore = 0
		r.limit(account, limits)
	}
}

func (r *room) open() {
	for name, limits := range r.before {
		if account, err := r.server.now().LookupAccount(name); err == nil {
			r.limit(account, limits)
		}
	}
	r.before = nil
}

func (r *room) limit(account *server.Account, limits server.JetStreamAccountLimits) {
	if err := account.UpdateJetStreamLimits(map[string]server.JetStreamAccountLimits{"": limits}); err != nil {
		r.log.Warn("limits of an account cannot be changed", zap.Error(err))
	}
}

// mend starts a server again that has had a write error: it keeps that for
// good, and takes nothing more. Where that does not help it is done ever more
// seldom, once a minute at least.
func (r *room) mend(now time.Time) error {
	if now.Before(r.again) {
		return nil
	}
	health := r.server.now().Healthz(&server.HealthzOptions{Details: true})
	for _, problem := range health.Errors {
		disabled := problem.Type == server.HealthzErrorJetStream
		if !disabled && !strings.Contains(problem.Error, "write error") {
			continue
		}
		r.pause = min(max(2*r.pause, time.Second), time.Minute)
		if now.Sub(r.again) > time.Minute {
			r.pause = time.Second
		}
		r.again = now.Add(r.pause)
		r.log.Error("the server could not write, and is started again", zap.String("stream", problem.Stream))
		return r.server.restart()
	}
	return nil
}

// readOnly is the mount flag of a file system that cannot be written to: called
// ST_RDONLY on Linux and MNT_RDONLY on macOS.
const readOnly = 1

// space is how much of a disk is free, and how much of it should be. None is
// free on one that cannot be written to.
func space(dir string) (free, reserve uint64, err error) {
	var st unix.Statfs_t
	if err := unix.Statfs(filepath.Clean(dir), &st); err != nil {
		return 0, 0, err
	}
	size := uint64(st.Bsize)
	reserve = min(mostReserve, st.Blocks*size/20)
	if st.Flags&readOnly != 0 {
		return 0, reserve, nil
	}
	return uint64(st.Bavail) * size, reserve, nil // signed on FreeBSD
}
