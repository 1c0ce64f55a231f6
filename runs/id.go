package runs

import (
	"errors"
	"fmt"
	"strconv"
	"strings"
	"unicode"
	"unicode/utf8"
)

// MaxID is the maximum length of a run id, in bytes.
const MaxID = 64

// CheckID returns an error unless id is a valid run id: 1 to 64 letters, digits,
// '-' and '_'. Such an id is valid as a token of a NATS subject and as a file
// name.
func CheckID(id string) error {
	if id == "" || len(id) > MaxID {
		return fmt.Errorf("run id: must have 1 to %d characters, has %d", MaxID, len(id))
	}
	for i := range len(id) {
		if !isWordChar(id[i]) && id[i] != '-' {
			return errors.New("run id: only letters, digits, '-' and '_' are allowed")
		}
	}
	return nil
}

// CheckAgent returns an error unless kind is a valid agent kind:
// ^[a-z][a-z0-9_]*$, at most 64 bytes.
func CheckAgent(kind string) error {
	if kind == "" || len(kind) > MaxID {
		return fmt.Errorf("agent: must have 1 to %d characters, has %d", MaxID, len(kind))
	}
	for i := range len(kind) {
		c := kind[i]
		if !('a' <= c && c <= 'z' || i > 0 && (isDigit(c) || c == '_')) {
			return errors.New("agent: must start with a-z and hold only a-z, 0-9 and '_'")
		}
	}
	return nil
}

// LocalID returns the id of a local run that started at unixMilli. Ids sort by
// time; random makes ids of the same millisecond unique.
func LocalID(unixMilli int64, random uint64) string {
	return "T-local-" + sortable(unixMilli, random)
}

// CloudID returns the id of a run in the cloud, like [LocalID].
func CloudID(unixMilli int64, random uint64) string {
	return "T-cloud-" + sortable(unixMilli, random)
}

func sortable(unixMilli int64, random uint64) string {
	const width = 9 // base 36 milliseconds up to the year 5188
	ms := strconv.FormatInt(max(unixMilli, 0), 36)
	rnd := strconv.FormatUint(random%(36*36*36*36*36*36), 36)
	return pad(ms, width) + pad(rnd, 6)
}

func pad(s string, width int) string { return strings.Repeat("0", max(width-len(s), 0)) + s }

// Limits of the labels of a run.
const (
	MaxLabels     = 16
	MaxLabelKey   = 64  // bytes
	MaxLabelValue = 256 // bytes
)

// CheckLabels returns an error for every label that is not valid. Keys and
// values are UTF-8 without control characters. The errors never quote a value.
func CheckLabels(labels map[string]string) error {
	var errs []error
	if len(labels) > MaxLabels {
		errs = append(errs, fmt.Errorf("labels: at most %d, got %d", MaxLabels, len(labels)))
	}
	for k, v := range labels {
		if k == "" || len(k) > MaxLabelKey || !printable(k) {
			errs = append(errs, fmt.Errorf("label: a key must have 1 to %d bytes of printable text,"+
				" one of %d bytes has not", MaxLabelKey, len(k)))
			continue
		}
		if !printable(v) {
			errs = append(errs, fmt.Errorf("label %q: control characters and invalid UTF-8 are not allowed", k))
		}
		if len(v) > MaxLabelValue {
			errs = append(errs, fmt.Errorf("label %q: at most %d bytes, got %d", k, MaxLabelValue, len(v)))
		}
	}
	return errors.Join(errs...)
}

// MaxGovernance is the maximum length of a governance token, in bytes.
const MaxGovernance = 4096

// CheckGovernance returns an error unless token is a valid governance token: 1
// to MaxGovernance bytes of printable ASCII. The error never quotes the token.
func CheckGovernance(token string) error {
	ok := token != "" && len(token) <= MaxGovernance
	for i := 0; ok && i < len(token); i++ {
		ok = ' ' <= token[i] && token[i] <= '~'
	}
	if !ok {
		return fmt.Errorf("governance token: must be 1 to %d bytes of printable ASCII", MaxGovernance)
	}
	return nil
}

func printable(s string) bool {
	return utf8.ValidString(s) && strings.IndexFunc(s, unicode.IsControl) < 0
}
