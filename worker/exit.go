package worker

import (
	"crypto/ed25519"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"os"
	"path/filepath"

	"golang.org/x/sys/unix"

	"github.com/linesman/linesman/internal/files"
	"github.com/linesman/linesman/runs"
)

// maxExit bounds exit.json and the message of a shim through its pipe, in
// bytes: a pipe transfers that much in one piece.
const maxExit = 4096

// sealedExit is the exit of a run, as a shim records it. An agent can write
// any file of its run directory, but it cannot sign: only the shim has the
// private key, and the worker that started the shim keeps the public key.
type sealedExit struct {
	runs.Exit
	At   int64  `json:"at,omitempty"`   // as in the Exit
	Seal []byte `json:"seal,omitempty"` // signature of the encoded Exit

	Out     *int64 `json:"out,omitempty"`      // as in the Exit
	OutSeal []byte `json:"out_seal,omitempty"` // signature of Out with the encoded Exit
}

// signedOut is what the signature of Out is of.
func signedOut(ex runs.Exit) []byte {
	return fmt.Appendf(nil, "%d bytes of stdout, %s", *ex.Out, runs.EncodeExit(ex))
}

// exit returns the exit with its time.
func (s sealedExit) exit() *runs.Exit {
	ex := s.Exit
	ex.At, ex.Out = s.At, s.Out
	return &ex
}

// shimConfig is what a worker passes to a shim on stdin. A shim without one
// starts its agent and signs nothing.
type shimConfig struct {
	Adopt bool     `json:"over"`  // supervise the agent of an earlier shim, do not start one
	Ended bool     `json:"ended"` // with Adopt: the exit of the agent is recorded already
	Seed  []byte   `json:"seed"`  // of the private key
	Keys  [][]byte `json:"keys"`  // public keys of the shims of this run, including earlier ones
}

// sealed encodes ex, signed with the key of seed if there is one.
func sealed(ex runs.Exit, seed []byte) []byte {
	s := sealedExit{Exit: ex, At: ex.At, Out: ex.Out}
	if len(seed) == ed25519.SeedSize {
		key := ed25519.NewKeyFromSeed(seed)
		s.Seal = ed25519.Sign(key, runs.EncodeExit(ex))
		if ex.Out != nil {
			s.OutSeal = ed25519.Sign(key, signedOut(ex))
		}
	}
	return runs.Encode(s)
}

// unseal decodes body, and returns nil unless one of the keys signed it.
// Without keys, as for a pipe, it accepts any body, and returns the reason lost
// for an invalid one.
func unseal(body []byte, keys [][]byte) *runs.Exit {
	s := new(sealedExit)
	err := json.Unmarshal(body, s)
	if len(keys) == 0 {
		if err != nil || s.Reason == "" {
			return &runs.Exit{Reason: runs.ReasonLost}
		}
		return s.exit()
	}
	for _, key := range keys {
		ex := s.exit()
		if err != nil || len(key) != ed25519.PublicKeySize || !ed25519.Verify(key, runs.EncodeExit(*ex), s.Seal) {
			continue
		}
		if ex.Out != nil && !ed25519.Verify(key, signedOut(*ex), s.OutSeal) {
			ex.Out = nil
		}
		return ex
	}
	return nil
}

// writeExit records how the run ended. The agent may have created another file
// at this path, or removed the write permission of the directory.
func writeExit(dir string, body []byte) error {
	path := filepath.Join(dir, exitFile)
	err := files.Replace(path, exitFile+".*", body)
	if errors.Is(err, fs.ErrPermission) || errors.Is(err, unix.EISDIR) || errors.Is(err, fs.ErrExist) ||
		errors.Is(err, unix.ENOTEMPTY) {
		_ = os.Chmod(dir, 0o700)
		_ = os.RemoveAll(path) // a directory at the path of the file
		err = files.Replace(path, exitFile+".*", body)
	}
	return err
}

// readExit returns how the run ended, or nil while there is no record that
// unseal accepts. Only a regular file is a record.
func readExit(dir string, keys ...[]byte) (*runs.Exit, error) {
	path := filepath.Join(dir, exitFile)
	f, err := openOwn(path, os.O_RDONLY)
	if errors.Is(err, fs.ErrPermission) {
		_ = os.Chmod(path, 0o600)
		f, err = openOwn(path, os.O_RDONLY)
	}
	if errors.Is(err, fs.ErrNotExist) || errors.Is(err, errBad) {
		return nil, nil
	}
	if err != nil {
		return nil, err
	}
	defer f.Close()
	body, err := io.ReadAll(io.LimitReader(f, maxExit))
	if err != nil {
		return nil, err
	}
	return unseal(body, keys), nil
}
