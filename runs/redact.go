package runs

import (
	"bytes"
	"regexp"
	"strings"
	"unicode"
	"unicode/utf8"

	"github.com/linesman/linesman/bounds"
)

// Redacted replaces a secret.
const Redacted = "[redacted]"

// secretFormat is a known format of secrets. The expression is used only if the
// text contains one of the needles. Go's expressions take linear time.
type secretFormat struct {
	needles     []string
	re          *regexp.Regexp
	replacement string
}

var secretFormats = []secretFormat{
	{
		[]string{"-----BEGIN "},
		regexp.MustCompile(`(?s)-----BEGIN [A-Z0-9 ]{1,64}-----.*?(?:-----END [A-Z0-9 ]{1,64}-----|$)`),
		Redacted,
	},
	{[]string{"eyJ"}, regexp.MustCompile(`\beyJ[A-Za-z0-9_-]{6,}(?:\.[A-Za-z0-9_-]*)*`), Redacted},
	{
		[]string{"://"},
		regexp.MustCompile(`(\b[A-Za-z][A-Za-z0-9+.-]*://)[^\s/?#"'<>]*@`),
		"${1}" + Redacted + "@",
	},
	{
		[]string{"earer", "EARER"},
		regexp.MustCompile(`(?i)\b(bearer["']?[\s:=]+["']?)[A-Za-z0-9._~+/=-]{4,}`),
		"${1}" + Redacted,
	},
	{
		[]string{"uthorization", "UTHORIZATION"},
		regexp.MustCompile(`(?i)\b(authorization["']?\s*[:=]\s*["']?(?:basic|token|digest|negotiate)\s+)[^\s"',]+`),
		"${1}" + Redacted,
	},
	{
		[]string{"sk-", "sk_", "rk_", "pk_"},
		regexp.MustCompile(`\b(?:sk-|[srp]k_(?:live|test)_)[A-Za-z0-9_-]{8,}`),
		Redacted,
	},
	{
		[]string{"gh", "glpat-", "npm_", "hf_"},
		regexp.MustCompile(`\b(?:gh[opusr]_|github_pat_|glpat-|npm_|hf_)[A-Za-z0-9_-]{8,}`),
		Redacted,
	},
	{
		[]string{"AKIA", "ASIA", "AIza"},
		regexp.MustCompile(`\b(?:(?:AKIA|ASIA)[A-Z0-9]{12,}|AIza[A-Za-z0-9_-]{20,})`),
		Redacted,
	},
	{[]string{"xox"}, regexp.MustCompile(`\bxox[abeoprs]-[A-Za-z0-9-]{6,}`), Redacted},
}

// A value is a secret if it is assigned to a name such as password or token:
// password=x, "api_key": "x", --token x. Plurals such as max_tokens do not count.
var (
	assigned = regexp.MustCompile(`(?i)(` + secretName + `(?:\\?["'])?\s*(?::=|[:=])\s*)` + secretValue)
	flagged  = regexp.MustCompile(`(?i)(\B--?` + secretName + `[ ]+)` + secretValue)
)

const (
	secretName = `[a-z0-9_.-]*(?:passw(?:or)?d|passphrase|pwd|secret|token|api[_-]?key|access[_-]?key|` +
		`private[_-]?key|credential)(?:[_.-][a-z0-9_.-]*)?`
	secretValue = `(?:\\?"[^"]*"?|\\?'[^']*'?|[^\s"',;&|]+)`
)

// secretWords are words of which every text with a secret contains at least one.
var secretWords = newMatcher(true,
	"-----begin ", "eyj", "://", "bearer", "authorization",
	"sk-", "sk_live_", "sk_test_", "rk_live_", "pk_live_", "pk_test_", "ghp_", "gho_", "ghu_", "ghs_", "ghr_",
	"github_pat_", "glpat-", "npm_", "hf_", "akia", "asia", "aiza", "xox",
	"passw", "passphrase", "pwd", "private", "secret", "token", "api", "access", "credential",
)

// secretNames are words of which every match of [secretName] contains one.
var secretNames = newMatcher(true,
	"passw", "passphrase", "pwd", "private", "secret", "token", "apikey", "api_key", "api-key", "access", "credential",
)

// Redact replaces possible secrets by [Redacted]: keys and tokens in well-known
// formats, JSON Web Tokens, PEM blocks, the user information of URLs, and values
// assigned to a name such as password, token, key or secret. It also replaces a
// secret whose end is missing because the text was truncated.
func Redact(s string) string {
	if index(secretWords, s) < 0 {
		return s
	}
	for i := range secretFormats {
		f := &secretFormats[i]
		for _, needle := range f.needles {
			if strings.Contains(s, needle) {
				s = f.re.ReplaceAllString(s, f.replacement)
				break
			}
		}
	}
	if index(secretNames, s) >= 0 {
		s = assigned.ReplaceAllString(s, "${1}"+Redacted)
		s = flagged.ReplaceAllString(s, "${1}"+Redacted)
	}
	return s
}

// oneLine redacts s and puts it on one line, without control characters and
// invalid UTF-8. A result of more than n characters is truncated and ends in "…".
func oneLine(s string, n int) string {
	s = Redact(s)
	step := plainPrefix(s)
	if step == len(s) && step <= n && (step == 0 || s[step-1] != ' ') {
		return s
	}
	b := make([]byte, 0, min(len(s), n+n/4)+len("…"))
	count := 0 // characters in b
	for len(s) > 0 && count <= n {
		if step > 0 {
			if s[0] == ' ' && (count == 0 || b[len(b)-1] == ' ') {
				s, step = s[1:], step-1
			}
			step = min(step, n+1-count)
			b = append(b, s[:step]...)
			count += step
		} else {
			r, size := utf8.DecodeRuneInString(s)
			step = size
			switch {
			case r == utf8.RuneError && size == 1:
			case r == ' ' || unicode.IsSpace(r) || unicode.IsControl(r):
				if count > 0 && b[len(b)-1] != ' ' {
					b = append(b, ' ')
					count++
				}
			default:
				b = utf8.AppendRune(b, r)
				count++
			}
		}
		s = s[step:]
		step = plainPrefix(s)
	}
	if count > n { // remove the excess and one more character
		for range count - n + 1 {
			_, size := utf8.DecodeLastRune(b)
			b = b[:len(b)-size]
		}
		return string(append(b, "…"...))
	}
	return string(bytes.TrimRight(b, " "))
}

// plainPrefix returns the length of the longest prefix of s that is printable
// ASCII without consecutive spaces.
func plainPrefix(s string) int {
	for i := range len(s) {
		c := s[i]
		if c < ' ' || c >= 0x7f || c == ' ' && i > 0 && s[i-1] == ' ' {
			return i
		}
	}
	return len(s)
}

// truncateJSON truncates s so that its JSON has at most n bytes.
func truncateJSON(s string, n int) string {
	if bounds.StringSize(s) <= n {
		return s
	}
	s = s[:bounds.Cut(s, n-len(`""`)-len("…"))]
	for bounds.StringSize(s)+len("…") > n {
		s = s[:bounds.Cut(s, len(s)*7/8)]
	}
	return strings.Clone(s) + "…"
}
