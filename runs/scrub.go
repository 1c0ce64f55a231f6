package runs

import "regexp"

// Scrub replaces secrets in a text for publication by [REDACTED:kind]. It only
// replaces formats that do not occur in ordinary text: keys and tokens with the
// prefix of a known issuer, JSON Web Tokens, private keys in PEM, and passwords
// in URLs. Secrets in other formats and incomplete secrets remain. [Redact], in
// contrast, replaces too much rather than too little.
func Scrub(s string) string {
	if index(scrubWords, s) < 0 {
		return s
	}
	for i := range scrubFormats {
		s = scrubFormats[i].re.ReplaceAllString(s, scrubFormats[i].replacement)
	}
	return s
}

// scrubWords are words of which every text with a secret in one of the
// scrubFormats contains at least one.
var scrubWords = newMatcher(false,
	"-----BEGIN ", "eyJ", "://", "sk-", "sk_live_", "rk_live_",
	"ghp_", "gho_", "ghu_", "ghs_", "ghr_", "github_pat_", "glpat-", "npm_", "hf_",
	"AKIA", "ASIA", "AIza", "xoxa-", "xoxb-", "xoxe-", "xoxo-", "xoxp-", "xoxr-", "xoxs-", "pypi-", "dop_v1_", "SG.",
)

// The lengths are those of issued secrets, or the minimum of them.
var scrubFormats = []struct {
	re          *regexp.Regexp
	replacement string
}{
	{
		regexp.MustCompile(`(?s)-----BEGIN (?:[A-Z0-9]{1,16} ){0,3}PRIVATE KEY(?: BLOCK)?-----.*?` +
			`(?:-----END (?:[A-Z0-9]{1,16} ){0,3}PRIVATE KEY(?: BLOCK)?-----|\z)`),
		"[REDACTED:private-key]",
	},
	{
		regexp.MustCompile(`\beyJ[A-Za-z0-9_-]{10,}\.eyJ[A-Za-z0-9_-]{10,}\.[A-Za-z0-9_-]{16,}`),
		"[REDACTED:jwt]",
	},
	{
		regexp.MustCompile(`(\b[a-z][a-z0-9+.-]{1,31}://[^\s/?#"'<>:@]{0,128}:)[^\s/?#"'<>@\[\]]{1,256}@`),
		"${1}[REDACTED:password]@",
	},
	{
		regexp.MustCompile(`\bsk-(?:proj-|svcacct-|admin-|ant-[a-z0-9]{2,8}-)?[A-Za-z0-9]{20}[A-Za-z0-9_-]*`),
		"[REDACTED:api-key]",
	},
	{regexp.MustCompile(`\b[sr]k_live_[A-Za-z0-9]{20,}`), "[REDACTED:stripe]"},
	{regexp.MustCompile(`\b(?:gh[opusr]_[A-Za-z0-9]{36,}|github_pat_[A-Za-z0-9_]{50,})`), "[REDACTED:github]"},
	{regexp.MustCompile(`\bglpat-[A-Za-z0-9_-]{20,}`), "[REDACTED:gitlab]"},
	{regexp.MustCompile(`\bnpm_[A-Za-z0-9]{36}\b`), "[REDACTED:npm]"},
	{regexp.MustCompile(`\bpypi-AgE[A-Za-z0-9_-]{50,}`), "[REDACTED:pypi]"},
	{regexp.MustCompile(`\bhf_[A-Za-z0-9]{34,}\b`), "[REDACTED:hugging-face]"},
	{regexp.MustCompile(`\b(?:AKIA|ASIA)[A-Z2-7]{16}\b`), "[REDACTED:aws]"},
	{regexp.MustCompile(`\bAIza[A-Za-z0-9_-]{35}`), "[REDACTED:google]"},
	{regexp.MustCompile(`\bxox[abeoprs]-[A-Za-z0-9]+-[A-Za-z0-9-]{8,}`), "[REDACTED:slack]"},
	{regexp.MustCompile(`\bdop_v1_[a-f0-9]{64}\b`), "[REDACTED:digitalocean]"},
	{regexp.MustCompile(`\bSG\.[A-Za-z0-9_-]{22}\.[A-Za-z0-9_-]{43}`), "[REDACTED:sendgrid]"},
}
