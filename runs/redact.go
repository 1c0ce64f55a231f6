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

// secretFormat is a known format of secrets. The expressions are used only if the text contains one of the
// needles. Go's expressions take linear time. Groups 1 and 2 of them, if there are any, stay.
type secretFormat struct {
	kind    string
	strict  func() *regexp.Regexp // of [Scrub]; nil: it does not replace them
	loose   func() *regexp.Regexp // of [Redact]
	needles []string
}

// issued returns the format of secrets that begin with a prefix of their issuer.
func issued(kind, strict, loose string, needles ...string) secretFormat {
	return secretFormat{kind, lazy.Regexp(begins + strict), lazy.Regexp(begins + loose), needles}
}

// begins matches what is in front of a secret: no part of a word, or an escape, a color of a terminal, or an encoded
// character that ends in a letter or a digit.
const begins = `(^|\W|\\[nrtbfv]|\\u[0-9A-Fa-f]{4}|\[[0-9;]*m|%[0-9A-Fa-f]{2})`

// replaceSecrets replaces the secrets of the formats in s: only what Scrub does, if strict is set.
func replaceSecrets(s string, formats []secretFormat, strict bool) string {
	for i := range formats {
		f := &formats[i]
		expression, by := f.loose, redacted
		if strict {
			expression, by = f.strict, "[REDACTED:"+f.kind+"]"
		}
		if expression != nil && slices.ContainsFunc(f.needles, func(n string) bool { return strings.Contains(s, n) }) {
			s = expression().ReplaceAllString(s, "${1}"+by+"${2}")
		}
	}
	return s
}

// wholeFormats is how many of the formats, the first ones, Redact replaces before the values of names, which can be in
// their secrets. The others can match a name itself, such as npm_auth_token, without its value.
const wholeFormats = 2

// secretFormats are the formats. The strict lengths are those of issued secrets, or the minimum of them.
var secretFormats = []secretFormat{
	{"private-key",
		lazy.Regexp(`(?s)-----BEGIN (?:[A-Z0-9]{1,16} ){0,3}PRIVATE KEY(?: BLOCK)?-----.*?` +
			`(?:-----END (?:[A-Z0-9]{1,16} ){0,3}PRIVATE KEY(?: BLOCK)?-----|\z)`),
		lazy.Regexp(`(?s)-----BEGIN [A-Z0-9 ]+-----.*?(?:-----END [A-Z0-9 ]+-----|$)`), []string{"-----BEGIN "}},
	{"", nil, lazy.Regexp(`([A-Za-z][A-Za-z0-9+.-]*://)[^\s/?#"'<>;]*(@)`), []string{"://"}}, // of no parameters
	issued("jwt", `eyJ[A-Za-z0-9_-]{10,}\.eyJ[A-Za-z0-9_-]{10,}\.[A-Za-z0-9_-]{16,}`,
		`eyJ[A-Za-z0-9_-]{6,}(?:\.[A-Za-z0-9_-]*)*`, "eyJ"),
	{"password",
		lazy.Regexp(`([a-z][a-z0-9+.-]{1,31}://[^\s/?#"'<>:@]{0,128}:)[^\s/?#"'<>@\[\]]{1,256}(@)`),
		lazy.Regexp(`([A-Za-z][A-Za-z0-9+.-]*://)[^\s/?#"'<>]*(@)`), []string{"://"}},
	{"", nil, lazy.Regexp(`(?i)(bearer\\*["']?[\s:=]+\\*["']?)[A-Za-z0-9._~+/=-]{4,}`), []string{"earer", "EARER"}},
	{"", nil, lazy.Regexp(`(?i)(authorization\\*["']?\s*[:=]\s*\\*["']?(?:basic|token|digest|negotiate)\s+)` +
		`(?:[^\s"',\\]|\\/)+`),
		[]string{"uthorization", "UTHORIZATION"}},
	issued("api-key", `sk-(?:proj-|svcacct-|admin-|ant-[a-z0-9]{2,8}-)?[A-Za-z0-9]{20}[A-Za-z0-9_-]*`,
		`sk-[A-Za-z0-9_-]{8,}`, "sk-"),
	issued("stripe", `[sr]k_live_[A-Za-z0-9]{20,}`, `[srp]k_(?:live|test)_[A-Za-z0-9_-]{8,}`, "k_live_", "k_test_"),
	issued("github", `(?:gh[opusr]_[A-Za-z0-9]{36,}|github_pat_[A-Za-z0-9_]{50,})`,
		`(?:gh[opusr]_|github_pat_)[A-Za-z0-9_-]{8,}`, "ghp_", "gho_", "ghu_", "ghs_", "ghr_", "github_pat_"),
	issued("gitlab", `glpat-[A-Za-z0-9_-]{20,}`, `glpat-[A-Za-z0-9_-]{8,}`, "glpat-"),
	issued("npm", `npm_[A-Za-z0-9]{36}\b`, `npm_[A-Za-z0-9_-]{8,}`, "npm_"),
	issued("pypi", `pypi-AgE[A-Za-z0-9_-]{50,}`, `pypi-AgE[A-Za-z0-9_-]{8,}`, "pypi-"),
	issued("hugging-face", `hf_[A-Za-z0-9]{34,}\b`, `hf_[A-Za-z0-9_-]{8,}`, "hf_"),
	issued("aws", `(?:AKIA|ASIA)[A-Z2-7]{16}\b`, `(?:AKIA|ASIA)[A-Z0-9]{12,}`, "AKIA", "ASIA"),
	issued("google", `AIza[A-Za-z0-9_-]{35,}`, `AIza[A-Za-z0-9_-]{20,}`, "AIza"),
	issued("slack", `xox[abeoprs]-[A-Za-z0-9]+-[A-Za-z0-9-]{8,}`, `xox[abeoprs]-[A-Za-z0-9-]{6,}`, "xox"),
	issued("digitalocean", `dop_v1_[a-f0-9]{64}\b`, `dop_v1_[a-f0-9]{8,}`, "dop_v1_"),
	issued("sendgrid", `SG\.[A-Za-z0-9_-]{22}\.[A-Za-z0-9_-]{43,}`, `SG\.[A-Za-z0-9_-]{16,}(?:\.[A-Za-z0-9_-]*)?`, "SG."),
}

// A value is a secret if it is assigned to a name such as password or token, or compared with it:
// password=x, "api_key": "x", --token x, 'secret' => 'x', ["--token", "x"], **Password:** x, and the block of YAML
// that begins with | or >. Plurals such as max_tokens do not count. The expressions are for the text from a name on.
var (
	assigned = lazy.Regexp(`(?i)^(` + secretName + assignment + `)` + secretValue)
	flagged  = lazy.Regexp(`(?i)^(` + secretName + `(?:[ ]+|\\*["'],\s*))` + secretValue)
	// keyed is any other variable of the environment that is a key, maybe behind an option or an escape.
	keyed = lazy.Regexp(`^([A-Za-z0-9_.-]*[A-Z0-9]_KEY=)` + secretValue)
)

const (
	secretName = `[a-z0-9_.-]*(?:passw(?:or)?d|passphrase|pwd|secret|token|credential|(?:api|access|private|secret|` +
		`master|encrypt|encryption|decrypt|decryption|account|auth|signing|hmac|jwt|license|subscription|shared|admin|` +
		`deploy|consumer)[_-]?key)(?:[_.-][a-z0-9_.-]*)?`
	// Behind =, the value is in the same line, or in the next of code, which has a blank in front of it and is indented:
	// else the next line can be another variable, as in .env. Emphasis is behind a colon, in front of a blank.
	assignment = `(?:\\*["'])?\**(?:\s*[:!]?=+>?[ \t]*|\s+[:!]?=+>?[ \t]*\r?\n[ \t]+|` +
		`\s*:(?:[*_]+[ \t])?\s*(?:[|>][-+]?\s+)?)(?:bearer[ \t]+)?`
	secretValue = `(?:\\+"[^"]*"?|\\+'[^']*'?|"(?:[^"\\]|(?s:\\.))*"?|'(?:[^'\\]|(?s:\\.))*'?|[^\s"',;&|]+)`
)

// openKeys are what the names of keys end in that are no secrets.
var openKeys = []string{"PUBLIC_KEY", "PRIMARY_KEY", "FOREIGN_KEY", "SORT_KEY", "PARTITION_KEY", "CACHE_KEY"}

// redactNamed replaces the values of names. It takes linear time: no part of a name is read twice.
func redactNamed(s string) string {
	var b []byte
	done := 0 // what of s is in b
	for from := 0; ; {
		word := index(nameMatcher, s[from:])
		if word < 0 {
			break
		}
		word += from
		start, end := word, word
		for start > from && inName(s[start-1]) {
			start--
		}
		for end < len(s) && inName(s[end]) {
			end++
		}
		from = end
		if value, after := valueOf(s, start, word, end); after > 0 {
			b = append(append(b, s[done:value]...), redacted...)
			done, from = after, after
		}
	}
	if done == 0 {
		return s
	}
	return string(append(b, s[done:]...))
}

// valueOf returns where the value begins, and ends, of the name s[start:end], which has a word of a secret in it; both
// are 0 if it has none.
func valueOf(s string, start, word, end int) (value, after int) {
	m := assigned().FindStringSubmatchIndex(s[start:])
	if m == nil && isFlag(s, start, word) {
		m = flagged().FindStringSubmatchIndex(s[start:])
	}
	isOpen := func(suffix string) bool { return strings.HasSuffix(s[start:end], suffix) }
	if m == nil && strings.HasPrefix(s[end:], "=") && !strings.HasPrefix(s[end:], "==") && isOpen("_KEY") &&
		!slices.ContainsFunc(openKeys, isOpen) {
		m = keyed().FindStringSubmatchIndex(s[start:])
	}
	if m == nil {
		return 0, 0
	}
	if value, after = start+m[3], start+m[1]; value == end+1 && s[end] == '=' && isAlone(s[:start]) {
		after += restOfLine(s[after:])
	}
	return value, after
}

// isFlag reports whether the name at start is that of an option: dashes in front of its word begin no part of a word.
// Behind an escape, its letter is in front of them, as in a\n-token.
func isFlag(s string, start, word int) bool {
	name := s[start:word]
	return strings.HasPrefix(name, "-") || strings.Contains(name, "--") || strings.Contains(name, ".-") ||
		len(name) > 1 && name[1] == '-' && start > 0 && s[start-1] == '\\'
}

// isAlone reports whether nothing is in front of a name in its line, but for what begins one in a shell, or in a diff.
func isAlone(before string) bool {
	before = strings.TrimRight(before, "+ \t")
	before = strings.TrimRight(strings.TrimSuffix(before, "export"), "+- \t")
	return before == "" || before[len(before)-1] == '\n'
}

// restOfLine returns how long the rest of a value is that ends with its line, 0 if more words follow: then it may be a
// command.
func restOfLine(s string) int {
	n := len(s)
	if i := strings.IndexAny(s, " \t\r\n"); i >= 0 {
		n = i
	}
	if rest := strings.TrimLeft(s[n:], " \t\r"); rest != "" && rest[0] != '\n' {
		return 0
	}
	return n
}

func inName(c byte) bool { return isWordChar(c) || c == '.' || c == '-' }

// nameWords are words of which every match of [secretName] contains one, in lower case: of keys in one word, the last
// letters.
var nameWords = []string{
	"passw", "passphrase", "pwd", "secret", "token", "credential", "_key", "-key",
	"ikey", "skey", "ekey", "rkey", "tkey", "nkey", "hkey", "gkey", "ckey", "dkey", "ykey",
}

// secretWords and scrubWords are words of which every text with a secret for Redact, and Scrub, contains one.
var (
	nameMatcher = newMatcher(true, nameWords...)
	secretWords = newMatcher(true, append(needles(false), nameWords...)...)
	scrubWords  = newMatcher(false, needles(true)...)
)

// needles returns those of all formats: of the strict ones as they are, else in lower case.
func needles(strict bool) (all []string) {
	for _, f := range secretFormats {
		for _, n := range f.needles {
			switch {
			case !strict:
				all = append(all, strings.ToLower(n))
			case f.strict != nil:
				all = append(all, n)
			}
		}
	}
	return all
}

// Redact replaces possible secrets by [redacted]: keys and tokens in well-known
// formats, JSON Web Tokens, PEM blocks, the user information of URLs, and values
// assigned to a name such as password, token, key or secret. It also replaces a
// secret whose end is missing because the text was truncated.
func Redact(s string) string {
	if index(secretWords, s) < 0 {
		return s
	}
	s = redactNamed(replaceSecrets(s, secretFormats[:wholeFormats], false))
	return replaceSecrets(s, secretFormats[wholeFormats:], false)
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
	return replaceSecrets(s, secretFormats, true)
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
