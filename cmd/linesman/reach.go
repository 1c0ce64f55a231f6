package main

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io/fs"
	"net/url"
	"os"
	"path/filepath"
	"time"

	"github.com/linesman/linesman/bus"
	"github.com/linesman/linesman/bus/embedded"
	"github.com/linesman/linesman/filelock"
	"github.com/linesman/linesman/worker"
)

// instance is linesman.json: where the `linesman up` of a data directory can
// be reached. Its keys are a contract.
type instance struct {
	NATS      string `json:"nats"`
	HTTP      string `json:"http"`
	TokenFile string `json:"token_file"`
	Data      string `json:"data"`
	PID       int    `json:"pid"`
	Version   string `json:"version"`
	Program   string `json:"program"` // its file at the start of the process

	Dir   string   `json:"dir,omitempty"`   // where tasks work that name no directory
	Roots []string `json:"roots,omitempty"` // in and below which tasks may work; none: it takes no tasks

	Background bool `json:"background,omitempty"` // another command started it, and it ends by itself
}

func instanceFile(data string) string { return filepath.Join(data, "linesman.json") }

// write replaces the file at once.
func (i instance) write() error {
	b, err := json.MarshalIndent(i, "", "  ")
	if err != nil {
		return err
	}
	tmp := instanceFile(i.Data) + ".tmp"
	if err := os.WriteFile(tmp, append(b, '\n'), 0o600); err != nil {
		return err
	}
	return os.Rename(tmp, instanceFile(i.Data))
}

// readInstance reads the file of a data directory.
func readInstance(data string) (instance, error) {
	var i instance
	b, err := os.ReadFile(instanceFile(data))
	if err != nil {
		return i, err
	}
	if err := json.Unmarshal(b, &i); err != nil {
		return i, fmt.Errorf("%s is damaged: %w", instanceFile(data), err)
	}
	return i, nil
}

// errLocked reports a data directory that another process has.
var errLocked = errors.New("another linesman works on this data directory")

// lockData makes the data directory where it is missing, and takes its lock.
// The kernel gives the lock back when the process ends, however it does.
func lockData(data string) (*os.File, error) {
	if err := worker.MakeDir(data); err != nil {
		return nil, fmt.Errorf("data directory: %w", err)
	}
	f, err := os.OpenFile(filepath.Join(data, "lock"), os.O_RDWR|os.O_CREATE, 0o600)
	if err != nil {
		return nil, fmt.Errorf("data directory: %w", err)
	}
	if err := takeLock(f); err != nil {
		_ = f.Close()
		return nil, err
	}
	return f, nil
}

// takeLock locks the lock file of a data directory. It returns errLocked only if
// another process has the lock. Other errors, such as those of file systems
// without locks, last: waiting does not help.
func takeLock(f *os.File) error {
	switch err := filelock.TryLock(f); {
	case errors.Is(err, filelock.ErrLocked):
		return fmt.Errorf("%w: %s", errLocked, filepath.Dir(f.Name()))
	case err != nil:
		return fmt.Errorf("data directory: %w; it must be on a file system with locks", err)
	}
	return nil
}

// moved reports whether the data directory of a lock was removed or replaced:
// another process may have the one that is there now.
func moved(lock *os.File) bool {
	own, err := lock.Stat()
	if err != nil {
		return false
	}
	now, err := os.Stat(lock.Name())
	return errors.Is(err, fs.ErrNotExist) || err == nil && !os.SameFile(own, now)
}

// held reports whether a process has the data directory.
func held(data string) bool {
	busy, err := filelock.Held(filepath.Join(data, "lock"))
	return busy && err == nil
}

// lockDataSoon is lockData for an `up` that another command has started. A
// process that was killed while it started a shim has a copy of the lock open
// until that shim is the program it is to become, which on a busy machine takes
// a moment. The lock is not taken once nobody wants it: the command was served by
// another `up`, and `down`, which has ended that one, is to leave none.
func lockDataSoon(ctx context.Context, data string, wanted func() bool) (*os.File, error) {
	for late := time.Now().Add(ghost); ; {
		if !wanted() { // before the directory is made
			return nil, errLocked
		}
		f, err := lockData(data)
		switch {
		case err == nil && !wanted():
			return nil, errors.Join(errLocked, filelock.Close(f))
		case !errors.Is(err, errLocked) || time.Now().After(late):
			return f, err
		}
		if retryPause(ctx) != nil {
			return nil, err
		}
	}
}

// ghost is how long a lock may outlive the process that had it.
const ghost = 2 * time.Second

// errNobody reports that there is nothing to connect to.
var errNobody = errors.New("no linesman is running here")

// connect connects to the server of --nats, or as user to the `linesman up`
// of the data directory. It starts nothing.
func (a *app) connect(ctx context.Context, user string) (*bus.Bus, error) {
	inside, public, err := a.logins(user)
	if err != nil {
		return nil, err
	}
	return a.dial(ctx, inside, public)
}

func (a *app) dial(ctx context.Context, inside, public bus.Login) (*bus.Bus, error) {
	// The server of a data directory comes back, maybe elsewhere: who refuses us
	// meanwhile is another one at its old port.
	inside.EndRefused = a.asks && a.config.NATS != ""
	public.EndRefused = inside.EndRefused
	b, err := bus.Connect(ctx, inside, public, a.names(), a.log)
	if errors.Is(err, bus.ErrUnreachable) {
		here, unread := readInstance(a.config.DataDir)
		switch {
		case a.config.NATS != "":
		case unread == nil && held(a.config.DataDir):
			err = fmt.Errorf("%w; %s", err, here.silent())
		default:
			err = fmt.Errorf("%w; %s says so: has that `linesman up` been killed? Start it again", err, instanceFile(a.config.DataDir))
		}
		return nil, exitWith(exitNATS, err)
	}
	return b, err
}

func (a *app) names() bus.Names { return bus.Names{Prefix: a.config.Prefix} }

func (a *app) logins(user string) (inside, public bus.Login, err error) {
	if a.config.NATS != "" && isDir(a.config.Creds) {
		inside, public, err = keyLogins(a.config.Creds, a.config.NATS, user)
		for _, l := range []bus.Login{inside, public} {
			if err == nil && l.Creds != "" {
				_, err = readCredentials(l.Creds)
			}
		}
		if err != nil {
			err = exitWith(exitUsage, fmt.Errorf("creds: %w", err))
		}
		return inside, public, err
	}
	if a.config.NATS != "" {
		if inside, public, err = fileLogins(a.config.NATS, a.config.Creds, a.config.PublicCreds, user); err != nil {
			err = exitWith(exitUsage, err)
		}
		return inside, public, err
	}
	data := a.config.DataDir
	running, err := readInstance(data)
	if err != nil {
		return inside, public, exitWith(exitNATS, fmt.Errorf("%w (%s): start `linesman up`, or name a server with --nats", errNobody, data))
	}
	credentials, err := embedded.LoadCredentials(data)
	if err != nil {
		return inside, public, err
	}
	inside, public = credentials.Logins(running.NATS, user)
	where := func() string { return whereIs(data) } // it may come back on another port
	inside.Where, public.Where = where, where
	return inside, public, nil
}

// whereIs is HOST:PORT of the server of a data directory, or "".
func whereIs(data string) string {
	i, err := readInstance(data)
	if err != nil {
		return ""
	}
	u, err := url.Parse(i.NATS)
	if err != nil {
		return ""
	}
	return u.Host
}

// soon bounds what should take a moment.
func soon(ctx context.Context) (context.Context, context.CancelFunc) {
	return context.WithTimeout(ctx, 10*time.Second)
}
