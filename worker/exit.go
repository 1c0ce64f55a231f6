package worker

import (
	"bytes"
	"crypto/ecdsa"
	"crypto/ed25519"
	"crypto/elliptic"
	"crypto/rand"
	"crypto/sha256"
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
// private key, and the worker that started the shim keeps the public key's hash.
type sealedExit struct {
	runs.Exit
	At   int64  `json:"at,omitempty"`   // as in the Exit
	Key  []byte `json:"key,omitempty"`  // the public key
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
	Key   []byte   `json:"key"`   // the private key
	Keys  [][]byte `json:"keys"`  // hashes of the public keys of the shims of this run, including earlier ones
}

// newKey returns a private key of ECDSA with P-256, and the hash of its public key. An Ed25519 key would cost a process
// that signs once 1.5 ms, for the table that its package computes at the first use.
func newKey() (private, hash []byte, err error) {
	key, err := ecdsa.GenerateKey(elliptic.P256(), rand.Reader)
	if err != nil {
		return nil, nil, err
	}
	public, err := key.PublicKey.Bytes()
	if err != nil {
		return nil, nil, err
	}
	private, err = key.Bytes()
	return private, keyHash(public), err
}

func keyHash(public []byte) []byte {
	hash := sha256.Sum256(public)
	return hash[:]
}

// sealed encodes ex, signed with the private key if there is one.
func sealed(ex runs.Exit, private []byte) []byte {
	s := sealedExit{Exit: ex, At: ex.At, Out: ex.Out}
	if key, err := ecdsa.ParseRawPrivateKey(elliptic.P256(), private); err == nil {
		s.Key, _ = key.PublicKey.Bytes()
		s.Seal = sign(key, runs.EncodeExit(ex))
		if ex.Out != nil {
			s.OutSeal = sign(key, signedOut(ex))
		}
	}
	return runs.Encode(s)
}

func sign(key *ecdsa.PrivateKey, text []byte) []byte {
	digest := sha256.Sum256(text)
	signature, err := ecdsa.SignASN1(rand.Reader, key, digest[:])
	if err != nil {
		return nil // not with a key of this curve
	}
	return signature
}

// unseal decodes body, and returns nil unless the shim of one of the keys signed it, see [sealedExit.signed].
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
		if err != nil || !s.signed(key, runs.EncodeExit(*ex), s.Seal) {
			continue
		}
		if ex.Out != nil && !s.signed(key, signedOut(*ex), s.OutSeal) {
			ex.Out = nil
		}
		return ex
	}
	return nil
}

// signed reports whether a shim has signed text. Key is the hash of its public key; of an older version's shim, whose
// record has no public key, it is an Ed25519 key.
func (s sealedExit) signed(key, text, signature []byte) bool {
	if len(s.Key) == 0 {
		return len(key) == ed25519.PublicKeySize && ed25519.Verify(key, text, signature)
	}
	public, err := ecdsa.ParseUncompressedPublicKey(elliptic.P256(), s.Key)
	digest := sha256.Sum256(text)
	return err == nil && bytes.Equal(key, keyHash(s.Key)) && ecdsa.VerifyASN1(public, digest[:], signature)
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
