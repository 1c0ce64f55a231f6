package runs

import (
	"bytes"
	"regexp"
	"slices"
	"strings"
	"unicode"
	"unicode/utf8"

	"github.com/linesman/linesman/bounds"
	"github.com/linesman/linesman/internal/lazy"
)

// redacted replaces a secret.
const redacted = "[redacted]"

// secretFormat is a known format of secrets. The expression is used only if the
// text contains one of the needles, or if there are none. Go's expressions take
// linear time.
type secretFormat struct {
	expression  func() *regexp.Regexp
	replacement string
	needles     []string
}

func format(replacement, expression string, needles ...string) secretFormat {
	return secretFormat{lazy.Regexp(expression), replacement, needles}
}

// replaceSecrets replaces the secrets of these formats in s.
func replaceSecrets(s string, formats []secretFormat) string {
	for i := range formats {
		f := &formats[i]
		if f.needles == nil || slices.ContainsFunc(f.needles, func(n string) bool { return strings.Contains(s, n) }) {
			s = f.expression().ReplaceAllString(s, f.replacement)
		}
	}
	return s
}

var secretFormats = []secretFormat{
	format(redacted, `(?s)-----BEGIN [A-Z0-9 ]+-----.*?(?:-----END [A-Z0-9 ]+-----|$)`, "-----BEGIN "),
	format(redacted, `\beyJ[A-Za-z0-9_-]{6,}(?:\.[A-Za-z0-9_-]*)*`, "eyJ"),
	format("${1}"+redacted+"@", `(\b[A-Za-z][A-Za-z0-9+.-]*://)[^\s/?#"'<>]*@`, "://"),
	format("${1}"+redacted, `(?i)\b(bearer["']?[\s:=]+["']?)[A-Za-z0-9._~+/=-]{4,}`, "earer", "EARER"),
	format("${1}"+redacted,
		`(?i)\b(authorization["']?\s*[:=]\s*["']?(?:basic|token|digest|negotiate)\s+)[^\s"',]+`,
		"uthorization", "UTHORIZATION"),
	format(redacted, `\b(?:sk-|[srp]k_(?:live|test)_)[A-Za-z0-9_-]{8,}`, "sk-", "sk_", "rk_", "pk_"),
	format(redacted, `\b(?:gh[opusr]_|github_pat_|glpat-|npm_|hf_)[A-Za-z0-9_-]{8,}`, "gh", "glpat-", "npm_", "hf_"),
	format(redacted, `\b(?:(?:AKIA|ASIA)[A-Z0-9]{12,}|AIza[A-Za-z0-9_-]{20,})`, "AKIA", "ASIA", "AIza"),
	format(redacted, `\bxox[abeoprs]-[A-Za-z0-9-]{6,}`, "xox"),
}

// A value is a secret if it is assigned to a name such as password or token, or compared with it:
// password=x, "api_key": "x", --token x, 'secret' => 'x', ["--token", "x"], and the block of YAML
// that begins with | or >. Plurals such as max_tokens do not count.
var (
	assigned = lazy.Regexp(`(?i)(` + secretName + `(?:\\*["'])?\s*(?:[:!]?=+>?|:)\s*(?:[|>][-+]?\s+)?)` + secretValue)
	flagged  = lazy.Regexp(`(?i)(\B--?` + secretName + `(?:[ ]+|\\*["'],\s*))` + secretValue)
)

const (
	secretName = `[a-z0-9_.-]*(?:passw(?:or)?d|passphrase|pwd|secret|token|api[_-]?key|access[_-]?key|` +
		`private[_-]?key|credential)(?:[_.-][a-z0-9_.-]*)?`
	secretValue = `(?:\\+"[^"]*"?|\\+'[^']*'?|"(?:[^"\\]|(?s:\\.))*"?|'(?:[^'\\]|(?s:\\.))*'?|[^\s"',;&|]+)`
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

// Redact replaces possible secrets by [redacted]: keys and tokens in well-known
// formats, JSON Web Tokens, PEM blocks, the user information of URLs, and values
// assigned to a name such as password, token, key or secret. It also replaces a
// secret whose end is missing because the text was truncated.
func Redact(s string) string {
	if index(secretWords, s) < 0 {
		return s
	}
	s = replaceSecrets(s, secretFormats)
	if index(secretNames, s) >= 0 {
		s = assigned().ReplaceAllString(s, "${1}"+redacted)
		s = flagged().ReplaceAllString(s, "${1}"+redacted)
	}
	return s
}

// Scrub replaces secrets in a text for publication by [REDACTED:kind]. It only
// replaces formats that do not occur in ordinary text: keys and tokens with the
// prefix of a known issuer, JSON Web Tokens, private keys in PEM, and passwords
// in URLs. Secrets in other formats and incomplete secrets remain. [Redact], in
// contrast, replaces too much rather than too little.
func Scrub(s string) string {
	if index(scrubWords, s) < 0 {
		return s
	}
	return replaceSecrets(s, scrubFormats)
}

// scrubWords are words of which every text with a secret in one of the
// scrubFormats contains at least one.
var scrubWords = newMatcher(false,
	"-----BEGIN ", "eyJ", "://", "sk-", "sk_live_", "rk_live_",
	"ghp_", "gho_", "ghu_", "ghs_", "ghr_", "github_pat_", "glpat-", "npm_", "hf_",
	"AKIA", "ASIA", "AIza", "xoxa-", "xoxb-", "xoxe-", "xoxo-", "xoxp-", "xoxr-", "xoxs-", "pypi-", "dop_v1_", "SG.",
)

// The lengths are those of issued secrets, or the minimum of them.
var scrubFormats = []secretFormat{
	format("[REDACTED:private-key]", `(?s)-----BEGIN (?:[A-Z0-9]{1,16} ){0,3}PRIVATE KEY(?: BLOCK)?-----.*?`+
		`(?:-----END (?:[A-Z0-9]{1,16} ){0,3}PRIVATE KEY(?: BLOCK)?-----|\z)`),
	format("[REDACTED:jwt]", `\beyJ[A-Za-z0-9_-]{10,}\.eyJ[A-Za-z0-9_-]{10,}\.[A-Za-z0-9_-]{16,}`),
	format("${1}[REDACTED:password]@",
		`(\b[a-z][a-z0-9+.-]{1,31}://[^\s/?#"'<>:@]{0,128}:)[^\s/?#"'<>@\[\]]{1,256}@`),
	format("[REDACTED:api-key]",
		`\bsk-(?:proj-|svcacct-|admin-|ant-[a-z0-9]{2,8}-)?[A-Za-z0-9]{20}[A-Za-z0-9_-]*`),
	format("[REDACTED:stripe]", `\b[sr]k_live_[A-Za-z0-9]{20,}`),
	format("[REDACTED:github]", `\b(?:gh[opusr]_[A-Za-z0-9]{36,}|github_pat_[A-Za-z0-9_]{50,})`),
	format("[REDACTED:gitlab]", `\bglpat-[A-Za-z0-9_-]{20,}`),
	format("[REDACTED:npm]", `\bnpm_[A-Za-z0-9]{36}\b`),
	format("[REDACTED:pypi]", `\bpypi-AgE[A-Za-z0-9_-]{50,}`),
	format("[REDACTED:hugging-face]", `\bhf_[A-Za-z0-9]{34,}\b`),
	format("[REDACTED:aws]", `\b(?:AKIA|ASIA)[A-Z2-7]{16}\b`),
	format("[REDACTED:google]", `\bAIza[A-Za-z0-9_-]{35}`),
	format("[REDACTED:slack]", `\bxox[abeoprs]-[A-Za-z0-9]+-[A-Za-z0-9-]{8,}`),
	format("[REDACTED:digitalocean]", `\bdop_v1_[a-f0-9]{64}\b`),
	format("[REDACTED:sendgrid]", `\bSG\.[A-Za-z0-9_-]{22}\.[A-Za-z0-9_-]{43}`),
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
