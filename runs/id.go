package runs

import (
	"errors"
	"fmt"
	"strconv"
	"strings"
	"unicode"
	"unicode/utf8"
)

// maxID is the maximum length of a run id, in bytes.
const maxID = 64

// CheckID returns an error unless id is a valid run id: 1 to 64 letters, digits,
// '-' and '_'. Such an id is valid as a token of a NATS subject and as a file
// name.
func CheckID(id string) error {
	if id == "" || len(id) > maxID {
		return fmt.Errorf("run id: must have 1 to %d characters, has %d", maxID, len(id))
	}
	if !consists(id, maxID, isIDChar) {
		return errors.New("run id: only letters, digits, '-' and '_' are allowed")
	}
	return nil
}

// consists reports whether s has 1 to n bytes, and all of them are valid.
func consists(s string, n int, valid func(c byte) bool) bool {
	for i := range len(s) {
		if !valid(s[i]) {
			return false
		}
	}
	return s != "" && len(s) <= n
}

func isIDChar(c byte) bool { return isWordChar(c) || c == '-' }

// CheckAgent returns an error unless kind is a valid agent kind:
// ^[a-z][a-z0-9_]*$, at most 64 bytes.
func CheckAgent(kind string) error {
	if kind == "" || len(kind) > maxID {
		return fmt.Errorf("agent: must have 1 to %d characters, has %d", maxID, len(kind))
	}
	lower := func(c byte) bool { return 'a' <= c && c <= 'z' || isDigit(c) || c == '_' }
	if !consists(kind, maxID, lower) || kind[0] < 'a' {
		return errors.New("agent: must start with a-z and hold only a-z, 0-9 and '_'")
	}
	return nil
}

// LocalID returns the id of a run of a file that linesman follows from unixMilli on. Ids
// sort by time; random makes ids of the same millisecond unique.
func LocalID(unixMilli int64, random uint64) string {
	return "T-local-" + milliseconds(unixMilli) + sixDigits(random)
}

// NewID returns the id of a run or a task that people name. Six random characters come
// before the time, so that neighbouring runs differ in the first characters.
func NewID(unixMilli int64, random uint64) string {
	return "T-local-" + sixDigits(random) + milliseconds(unixMilli)
}

// NewCloudID is [NewID] for a run in the cloud.
func NewCloudID(unixMilli int64, random uint64) string {
	return "T-cloud-" + sixDigits(random) + milliseconds(unixMilli)
}

// milliseconds returns nine digits in base 36, which suffice up to the year 5188.
func milliseconds(unixMilli int64) string {
	return fmt.Sprintf("%09s", strconv.FormatInt(max(unixMilli, 0), 36))
}

func sixDigits(random uint64) string {
	return fmt.Sprintf("%06s", strconv.FormatUint(random%(36*36*36*36*36*36), 36))
}

// MaxGovernance is the maximum length of a governance token, in bytes.
const MaxGovernance = 4096

// CheckGovernance returns an error unless token is a valid governance token: 1
// to MaxGovernance bytes of printable ASCII. The error never quotes the token.
func CheckGovernance(token string) error {
	if !consists(token, MaxGovernance, func(c byte) bool { return ' ' <= c && c <= '~' }) {
		return fmt.Errorf("governance token: must be 1 to %d bytes of printable ASCII", MaxGovernance)
	}
	return nil
}

func printable(s string) bool {
	return utf8.ValidString(s) && strings.IndexFunc(s, unicode.IsControl) < 0
}
