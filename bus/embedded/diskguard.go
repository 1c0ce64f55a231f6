package embedded

import (
	"context"
	"errors"
	"fmt"
	"path/filepath"
	"strings"
	"time"

	"github.com/nats-io/nats-server/v2/server"
	"go.uber.org/zap"
	"golang.org/x/sys/unix"
)

// A NATS server acknowledges a message before it is in the file. On a full disk it
// loses such messages, and then refuses all writes, even when there is free space
// again. So writes are blocked before the disk is full.
const (
	diskInterval   = 100 * time.Millisecond
	healthInterval = time.Second

	// maxReserve is the maximum free space to reserve; otherwise a twentieth of the
	// disk. It must exceed what is written between two checks.
	maxReserve = 64 << 20

	// maxFiles is the same for files, of disks that can have only so many.
	maxFiles = 1024
)

// DiskGuard blocks writes to the streams of a server while its disk is nearly full.
// Writers wait, as for a full RAW.
type DiskGuard struct {
	server   *Server
	log      *zap.Logger
	limits   map[string]server.JetStreamAccountLimits // of the accounts, while writes are blocked; otherwise nil
	blocked  *server.Server                           // writes to it are blocked; a restarted server accepts writes
	checked  time.Time                                // when the server's health was last checked
	notUntil time.Time                                // no restart before this time
	pause    time.Duration                            // minimum time between restarts
}

// NewDiskGuard returns a guard for the disk of a server.
func NewDiskGuard(s *Server) *DiskGuard { return &DiskGuard{server: s, log: s.log.Named("disk")} }

// ErrNoRoom reports that nothing should be stored on the disk of the data directory.
var ErrNoRoom = errors.New("the disk of the data directory is nearly full, has no room for files, or is read-only")

// Room returns an error, which is [ErrNoRoom], if the disk of dir, in the data directory, has so little
// free space that [DiskGuard.Run] would block writes.
func Room(dir string) error {
	free, reserve, err := space(dir)
	if err == nil && free < reserve {
		err = fmt.Errorf("%w: %d bytes are free, and %d are needed", ErrNoRoom, free, reserve)
	}
	return err
}

// Check is [Room] for the disk of the server.
func (g *DiskGuard) Check() error { return Room(g.server.store) }

// Run checks the disk until ctx ends. If the server had a write error nevertheless, for
// example because another program filled the disk at once, Run restarts it when there
// is free space. It returns an error if the server cannot be restarted.
func (g *DiskGuard) Run(ctx context.Context) error {
	tick := time.NewTicker(diskInterval)
	defer tick.Stop()
	for {
		if err := g.check(time.Now()); err != nil {
			return fmt.Errorf("embedded server: %w", err)
		}
		select {
		case <-ctx.Done():
			return nil
		case <-tick.C:
		}
	}
}

func (g *DiskGuard) check(now time.Time) error {
	if !g.server.current().Running() { // a restart failed: retry it once
		g.log.Error("the embedded server is not running: restarting it")
		if err := g.server.Restart(nil); err != nil {
			return err
		}
	}
	free, reserve, err := space(g.server.store)
	if err != nil {
		return nil // may be transient; a write error of the server is detected by its health
	}
	return g.act(now, free, reserve)
}

// act blocks or allows writes, and restarts the server if needed, given the free and
// the reserved space.
func (g *DiskGuard) act(now time.Time, free, reserve uint64) error {
	switch blocked := g.limits != nil; {
	case !blocked && free < reserve:
		g.block()
		g.log.Error(ErrNoRoom.Error()+": nothing is stored until there is room",
			zap.Uint64("free", free), zap.Uint64("needed", reserve*3/2))
	case blocked && free < reserve*3/2:
		if g.server.current() != g.blocked {
			g.block()
		}
	case blocked:
		if err := g.repair(now); err != nil {
			return err
		}
		g.unblock()
		g.checked = now
		g.log.Info("there is room again", zap.Uint64("free", free))
	case !blocked && now.Sub(g.checked) >= healthInterval:
		g.checked = now
		return g.repair(now)
	}
	return nil
}

// block makes the accounts refuse writes. It writes nothing to the disk.
func (g *DiskGuard) block() {
	g.blocked = g.server.current()
	if g.limits == nil {
		g.limits = map[string]server.JetStreamAccountLimits{}
	}
	for _, name := range []string{InsideAccount, PublicAccount} {
		account, err := g.blocked.LookupAccount(name)
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

func (g *DiskGuard) unblock() {
	for name, limits := range g.limits {
		if account, err := g.server.current().LookupAccount(name); err == nil {
			g.setLimits(account, limits)
		}
	}
	g.limits = nil
}

func (g *DiskGuard) setLimits(account *server.Account, limits server.JetStreamAccountLimits) {
	if err := account.UpdateJetStreamLimits(map[string]server.JetStreamAccountLimits{"": limits}); err != nil {
		g.log.Warn("cannot change the limits of an account", zap.Error(err))
	}
}

// repair restarts a server that has had a write error: the server keeps refusing writes
// otherwise. If that does not help, the time between restarts grows up to a minute.
func (g *DiskGuard) repair(now time.Time) error {
	if now.Before(g.notUntil) {
		return nil
	}
	health := g.server.current().Healthz(&server.HealthzOptions{Details: true})
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

// readOnly is the mount flag of a read-only file system: ST_RDONLY on Linux, MNT_RDONLY
// on macOS.
const readOnly = 1

// space returns how many bytes of a disk are free, and how many should be. A file system that
// is read-only, or has no room for files, has none free.
func space(dir string) (free, reserve uint64, err error) {
	var st unix.Statfs_t
	if err := unix.Statfs(filepath.Clean(dir), &st); err != nil {
		return 0, 0, err
	}
	free, reserve = spaceOf(&st)
	return free, reserve, nil
}

// spaceOf is [space] of what the file system says of itself.
func spaceOf(st *unix.Statfs_t) (free, reserve uint64) {
	size := DiskUnit(st)
	reserve = min(maxReserve, st.Blocks*size/20)
	files, all := uint64(st.Ffree), uint64(st.Files) // signed on FreeBSD; all is 0 where there is no limit
	switch needed := min(maxFiles, all/20); {
	case st.Flags&readOnly != 0, all > 0 && files < needed:
		return 0, reserve
	case all > 0 && files < needed*3/2: // as act does it with bytes
		return min(reserve, uint64(st.Bavail)*size), reserve
	}
	return uint64(st.Bavail) * size, reserve
}
