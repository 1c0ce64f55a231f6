package runs

import (
	"bytes"
	"regexp"
	"strings"
	"unicode"
	"unicode/utf8"

	"github.com/linesman/linesman/bounds"
)

// Redacted stands where a secret was.
const Redacted = "[redacted]"

// secret is one form of secrets. Its expression is only tried on a text that
// has one of the needles; Go's expressions take linear time on any text.
type secret struct {
	needles []string
	re      *regexp.Regexp
	with    string
}

var secrets = []secret{
	{[]string{"-----BEGIN "}, regexp.MustCompile(`(?s)-----BEGIN [A-Z0-9 ]{1,64}-----.*?(?:-----END [A-Z0-9 ]{1,64}-----|$)`), Redacted},
	{[]string{"eyJ"}, regexp.MustCompile(`\beyJ[A-Za-z0-9_-]{6,}(?:\.[A-Za-z0-9_-]*)*`), Redacted},
	{[]string{"://"}, regexp.MustCompile(`(\b[A-Za-z][A-Za-z0-9+.-]*://)[^\s/?#"'<>]*@`), "${1}" + Redacted + "@"},
	{[]string{"earer", "EARER"}, regexp.MustCompile(`(?i)\b(bearer["']?[\s:=]+["']?)[A-Za-z0-9._~+/=-]{4,}`), "${1}" + Redacted},
	{[]string{"uthorization", "UTHORIZATION"}, regexp.MustCompile(`(?i)\b(authorization["']?\s*[:=]\s*["']?(?:basic|token|digest|negotiate)\s+)[^\s"',]+`), "${1}" + Redacted},
	{[]string{"sk-", "sk_", "rk_", "pk_"}, regexp.MustCompile(`\b(?:sk-|[srp]k_(?:live|test)_)[A-Za-z0-9_-]{8,}`), Redacted},
	{[]string{"gh", "glpat-", "npm_", "hf_"}, regexp.MustCompile(`\b(?:gh[opusr]_|github_pat_|glpat-|npm_|hf_)[A-Za-z0-9_-]{8,}`), Redacted},
	{[]string{"AKIA", "ASIA", "AIza"}, regexp.MustCompile(`\b(?:(?:AKIA|ASIA)[A-Z0-9]{12,}|AIza[A-Za-z0-9_-]{20,})`), Redacted},
	{[]string{"xox"}, regexp.MustCompile(`\bxox[abeoprs]-[A-Za-z0-9-]{6,}`), Redacted},
}

// A value is secret that is given to a name which says so: password=x,
// "api_key": "x", --token x. A plural such as max_tokens says something else.
var (
	assigned = regexp.MustCompile(`(?i)(` + secretName + `(?:\\?["'])?\s*(?::=|[:=])\s*)` + secretValue)
	flagged  = regexp.MustCompile(`(?i)(\B--?` + secretName + `[ ]+)` + secretValue)
)

const (
	secretName = `[a-z0-9_.-]*(?:passw(?:or)?d|passphrase|pwd|secret|token|api[_-]?key|access[_-]?key|private[_-]?key|credential)` +
		`(?:[_.-][a-z0-9_.-]*)?`
	secretValue = `(?:\\?"[^"]*"?|\\?'[^']*'?|[^\s"',;&|]+)`
)

// suspect are the words of which a text with a secret has at least one.
var suspect = newSieve(true,
	"-----begin ", "eyj", "://", "bearer", "authorization", "sk-", "sk_live_", "sk_test_", "rk_live_", "pk_live_", "pk_test_",
	"ghp_", "gho_", "ghu_", "ghs_", "ghr_", "github_pat_", "glpat-", "npm_", "hf_", "akia", "asia", "aiza", "xox",
	"passw", "passphrase", "pwd", "private", "secret", "token", "api", "access", "credential",
)

// names are the beginnings of those that [secretName] means.
var names = newSieve(true, "passw", "passphrase", "pwd", "private", "secret", "token", "apikey", "api_key", "api-key", "access", "credential")

// Redact replaces what looks like a secret: keys and tokens of the usual
// forms, JSON Web Tokens, PEM blocks, the user in a URL, and what is assigned
// to a password, token, key or secret. A text that was cut inside a secret
// loses the rest of it, too.
func Redact(s string) string {
	if index(suspect, s) < 0 {
		return s
	}
	for i := range secrets {
		p := &secrets[i]
		for _, needle := range p.needles {
			if strings.Contains(s, needle) {
				s = p.re.ReplaceAllString(s, p.with)
				break
			}
		}
	}
	if index(names, s) >= 0 {
		s = assigned.ReplaceAllString(s, "${1}"+Redacted)
		s = flagged.ReplaceAllString(s, "${1}"+Redacted)
	}
	return s
}

// oneLine is s redacted, on one line, without control characters and what is
// no text, and at most n characters long: a longer one ends with "…".
func oneLine(s string, n int) string {
	s = Redact(s)
	run := tidy(s)
	if run == len(s) && run <= n && (run == 0 || s[run-1] != ' ') {
		return s
	}
	b := make([]byte, 0, min(len(s), n+n/4)+len("…"))
	count := 0 // characters in b
	for len(s) > 0 && count <= n {
		if run > 0 {
			if s[0] == ' ' && (count == 0 || b[len(b)-1] == ' ') {
				s, run = s[1:], run-1
			}
			run = min(run, n+1-count)
			b = append(b, s[:run]...)
			count += run
		} else {
			r, size := utf8.DecodeRuneInString(s)
			run = size
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
		s = s[run:]
		run = tidy(s)
	}
	if count > n { // one character and the next one give way
		for range count - n + 1 {
			_, size := utf8.DecodeLastRune(b)
			b = b[:len(b)-size]
		}
		return string(append(b, "…"...))
	}
	return string(bytes.TrimRight(b, " "))
}

// tidy is how many bytes s begins with that are ASCII, with single spaces
// between words.
func tidy(s string) int {
	for i := range len(s) {
		c := s[i]
		if c < ' ' || c >= 0x7f || c == ' ' && i > 0 && s[i-1] == ' ' {
			return i
		}
	}
	return len(s)
}

// fit cuts s so that it takes at most n bytes as JSON.
func fit(s string, n int) string {
	if bounds.StringSize(s) <= n {
		return s
	}
	s = s[:bounds.Cut(s, n-len(`""`)-len("…"))]
	for bounds.StringSize(s)+len("…") > n {
		s = s[:bounds.Cut(s, len(s)*7/8)]
	}
	return strings.Clone(s) + "…"
}
