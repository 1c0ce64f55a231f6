package embedded

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
// it loses those, and then refuses all that comes, also once there is free space. So
// its streams are closed to writers before the disk is full.
const (
	lookAtDisk   = 100 * time.Millisecond
	lookAtHealth = time.Second

	// maxReserve is what stays free, or a twentieth of the disk where that is
	// less: more than is written between two looks.
	maxReserve = 64 << 20
)

// DiskGuard closes the streams of a server to writers while its disk is nearly
// full. Writers wait meanwhile, as with a RAW that is full.
type DiskGuard struct {
	server   *Server
	log      *zap.Logger
	limits   map[string]server.JetStreamAccountLimits // of the accounts, while they are closed; else nil
	closed   *server.Server                           // the server that was closed: one that is started again is open
	checked  time.Time                                // when the server's health was
	notUntil time.Time                                // the next restart
	pause    time.Duration                            // after which another restart is possible
}

// NewDiskGuard is a guard for the disk of a server.
func NewDiskGuard(s *Server) *DiskGuard { return &DiskGuard{server: s, log: s.log.Named("disk")} }

// Check is an error where the disk has so little free space that [DiskGuard.Run]
// would close the streams.
func (g *DiskGuard) Check() error {
	free, reserve, err := space(g.server.store)
	if err != nil {
		return fmt.Errorf("embedded server: %w", err)
	}
	if free < reserve {
		return fmt.Errorf("the disk of the data directory is nearly full, or read-only: %d bytes are free, and %d are needed", free, reserve)
	}
	return nil
}

// Run watches the disk until ctx ends. A server that ran into the end of the disk
// all the same, as somebody else took all at once, is started again once there is
// free space. The error is that of a server that does not come back.
func (g *DiskGuard) Run(ctx context.Context) error {
	tick := time.NewTicker(lookAtDisk)
	defer tick.Stop()
	for {
		if err := g.look(time.Now()); err != nil {
			return fmt.Errorf("embedded server: %w", err)
		}
		select {
		case <-ctx.Done():
			return nil
		case <-tick.C:
		}
	}
}

func (g *DiskGuard) look(now time.Time) error {
	if !g.server.now().Running() { // it was to start again, and did not: once more, or this is the end
		g.log.Error("the embedded server does not run, and is started again")
		if err := g.server.Restart(nil); err != nil {
			return err
		}
	}
	free, reserve, err := space(g.server.store)
	if err != nil {
		return nil // it may come back; what it means for the server shows there
	}
	return g.act(now, free, reserve)
}

// act does what is needed with so much free, of what should be.
func (g *DiskGuard) act(now time.Time, free, reserve uint64) error {
	switch closed := g.limits != nil; {
	case !closed && free < reserve:
		g.close()
		g.log.Error("the disk of the data directory is nearly full, or read-only: nothing is stored until there is room",
			zap.Uint64("free", free), zap.Uint64("needed", reserve*3/2))
	case closed && free < reserve*3/2:
		if g.server.now() != g.closed {
			g.close()
		}
	case closed:
		if err := g.mend(now); err != nil {
			return err
		}
		g.open()
		g.checked = now
		g.log.Info("there is room again", zap.Uint64("free", free))
	case !closed && now.Sub(g.checked) >= lookAtHealth:
		g.checked = now
		return g.mend(now)
	}
	return nil
}

// close has the accounts take nothing more. That writes nothing to the disk.
func (g *DiskGuard) close() {
	g.closed = g.server.now()
	if g.limits == nil {
		g.limits = map[string]server.JetStreamAccountLimits{}
	}
	for _, name := range []string{InsideAccount, PublicAccount} {
		account, err := g.closed.LookupAccount(name)
		if err != nil {
			continue
		}
		limits := account.JetStreamUsage().Limits
		if _, known := g.limits[name]; !known {
			g.limits[name] = limits
		}
		limits.MaxStore = 0
		g.setLimits(account, limits)
	}
}

func (g *DiskGuard) open() {
	for name, limits := range g.limits {
		if account, err := g.server.now().LookupAccount(name); err == nil {
			g.setLimits(account, limits)
		}
	}
	g.limits = nil
}

func (g *DiskGuard) setLimits(account *server.Account, limits server.JetStreamAccountLimits) {
	if err := account.UpdateJetStreamLimits(map[string]server.JetStreamAccountLimits{"": limits}); err != nil {
		g.log.Warn("limits of an account cannot be changed", zap.Error(err))
	}
}

// mend starts a server again that has had a write error: it keeps that for
// good, and takes nothing more. Where that does not help it is done ever more
// seldom, once a minute at least.
func (g *DiskGuard) mend(now time.Time) error {
	if now.Before(g.notUntil) {
		return nil
	}
	health := g.server.now().Healthz(&server.HealthzOptions{Details: true})
	for _, problem := range health.Errors {
		disabled := problem.Type == server.HealthzErrorJetStream
		if !disabled && !strings.Contains(problem.Error, "write error") {
			continue
		}
		g.pause = min(max(2*g.pause, time.Second), time.Minute)
		if now.Sub(g.notUntil) > time.Minute {
			g.pause = time.Second
		}
		g.notUntil = now.Add(g.pause)
		g.log.Error("the server could not write, and is started again", zap.String("stream", problem.Stream))
		return g.server.Restart(nil)
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
	reserve = min(maxReserve, st.Blocks*size/20)
	if st.Flags&readOnly != 0 {
		return 0, reserve, nil
	}
	return uint64(st.Bavail) * size, reserve, nil // signed on FreeBSD
}
