package worker

import (
	"crypto/ed25519"
	"encoding/json"
	"errors"
	"io"
	"io/fs"
	"os"
	"path/filepath"

	"golang.org/x/sys/unix"

	"github.com/linesman/linesman/atomicfile"
	"github.com/linesman/linesman/runs"
)

// maxExit bounds exit.json, in bytes, and what a shim says through its pipe:
// at most what a pipe takes in one piece.
const maxExit = 4096

// sealedExit is how a run ended, as a shim records it. An agent may write any
// file of its run directory, but it cannot seal: the key is in the memory of
// the shim alone, and the worker that started the shim keeps its public half.
type sealedExit struct {
	runs.Exit
	Seal []byte `json:"seal,omitempty"` // signature of the Exit, encoded
}

// order is what a worker tells a shim through its stdin. A shim without one
// starts its agent, and seals nothing.
type order struct {
	Over  bool     `json:"over"`  // supervise what an earlier shim started, and start nothing
	Ended bool     `json:"ended"` // with Over: the agent has ended, and that is recorded
	Seed  []byte   `json:"seed"`  // of the key to seal with
	Keys  [][]byte `json:"keys"`  // that seal this run's exit: also those of shims before
}

func readOrder(r io.Reader) (o order, err error) {
	body, err := io.ReadAll(io.LimitReader(r, maxExit))
	if err != nil || len(body) == 0 {
		return o, err
	}
	return o, json.Unmarshal(body, &o)
}

// sealed encodes ex, sealed with the key of seed if there is one.
func sealed(ex runs.Exit, seed []byte) []byte {
	s := sealedExit{Exit: ex}
	if len(seed) == ed25519.SeedSize {
		s.Seal = ed25519.Sign(ed25519.NewKeyFromSeed(seed), runs.Encode(ex))
	}
	return runs.Encode(s)
}

// unseal returns the exit that body says, or nil if none of the keys sealed it.
// Without keys, which a run directory of an older version has not, all is
// believed; a body that makes no sense then says that nobody knows.
func unseal(body []byte, keys [][]byte) *runs.Exit {
	s := new(sealedExit)
	err := json.Unmarshal(body, s)
	if len(keys) == 0 {
		if err != nil || s.Reason == "" {
			return &runs.Exit{Reason: runs.ReasonLost}
		}
		return &s.Exit
	}
	for _, key := range keys {
		if err == nil && len(key) == ed25519.PublicKeySize && ed25519.Verify(key, runs.Encode(s.Exit), s.Seal) {
			return &s.Exit
		}
	}
	return nil
}

// writeExit records how the run ended: the agent may be about to write there,
// too, and may have taken the right to do so away.
func writeExit(dir string, body []byte) error {
	path := filepath.Join(dir, exitFile)
	err := atomicfile.Replace(path, exitFile+".*", body)
	if errors.Is(err, fs.ErrPermission) || errors.Is(err, unix.EISDIR) || errors.Is(err, fs.ErrExist) || errors.Is(err, unix.ENOTEMPTY) {
		_ = os.Chmod(dir, 0o700)
		_ = os.RemoveAll(path) // a directory, in the place of the file
		err = atomicfile.Replace(path, exitFile+".*", body)
	}
	return err
}

// readExit returns how the run ended, or nil while that is not recorded by one
// who may: see unseal. What is no file is no record.
func readExit(dir string, keys ...[]byte) (*runs.Exit, error) {
	path := filepath.Join(dir, exitFile)
	f, err := os.OpenFile(path, os.O_RDONLY|unix.O_NOFOLLOW|unix.O_NONBLOCK, 0)
	if errors.Is(err, fs.ErrPermission) {
		_ = os.Chmod(path, 0o600)
		f, err = os.OpenFile(path, os.O_RDONLY|unix.O_NOFOLLOW|unix.O_NONBLOCK, 0)
	}
	if errors.Is(err, fs.ErrNotExist) || errors.Is(err, unix.ELOOP) || errors.Is(err, unix.ENXIO) {
		return nil, nil // a symbolic link and a socket among them
	}
	if err != nil {
		return nil, err
	}
	defer f.Close()
	if info, err := f.Stat(); err != nil || !info.Mode().IsRegular() {
		return nil, err
	}
	body, err := io.ReadAll(io.LimitReader(f, maxExit))
	if err != nil {
		return nil, err
	}
	return unseal(body, keys), nil
}
