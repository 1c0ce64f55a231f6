package runs_test

import (
	"strings"
	"testing"
	"unicode/utf8"

	"pgregory.net/rapid"

	"github.com/linesman/linesman/runs"
)

func TestSecretsAreRedacted(t *testing.T) {
	const x = runs.Redacted
	for _, c := range []struct{ text, want string }{
		{"", ""},
		{"go test ./... -run TestTask", "go test ./... -run TestTask"},
		{"key sk-abcdefgh12345678 used", "key " + x + " used"},
		{"OPENAI=sk-proj-Abc_def-1234567890", "OPENAI=" + x},
		{"sk_live_0123456789abcdef", x},
		{"ghp_0123456789abcdefABCDEF gho_0123456789abcdef github_pat_11ABC_def0123456789", x + " " + x + " " + x},
		{"glpat-0123456789abcdef", x},
		{"AKIAIOSFODNN7EXAMPLE and ASIAIOSFODNN7EXAMPLE", x + " and " + x},
		{"xoxb-123456789012-abcdef", x},
		{"curl -H 'Authorization: Bearer abc.def-123' https://x",
			"curl -H 'Authorization: Bearer " + x + "' https://x"},
		{"authorization: basic dXNlcjpwYXNz", "authorization: basic " + x},
		{"password=hunter2 next", "password=" + x + " next"},
		{`PGPASSWORD='hunter 2' psql`, `PGPASSWORD=` + x + ` psql`},
		{`{"api_key": "abc", "user": "me"}`, `{"api_key": ` + x + `, "user": "me"}`},
		{`{\"token\":\"abc\"}`, `{\"token\":` + x + `}`},
		{"export GITHUB_TOKEN=abc; make", "export GITHUB_TOKEN=" + x + "; make"},
		{"tool --token abc --password=def --verbose", "tool --token " + x + " --password=" + x + " --verbose"},
		{"secret_key: abc", "secret_key: " + x},
		{"max_tokens=4096 input_tokens: 12", "max_tokens=4096 input_tokens: 12"},
		{"the token is lost, the secret of it", "the token is lost, the secret of it"},
		{"the secret token=abc", "the secret token=" + x},
		{"-token abc -e API_KEY=def", "-token " + x + " -e API_KEY=" + x},
		{`secret => 'a b', :token => "c"`, `secret => ` + x + `, :token => ` + x},
		{`if password == "a b" || api_key != 'c'`, `if password == ` + x + ` || api_key != ` + x},
		{`{"password": "a\"b c", "user": "me"}`, `{"password": ` + x + `, "user": "me"}`},
		{`{\\\"password\\\":\\\"a b\\\"}`, `{\\\"password\\\":` + x + `}`},
		{`["tool", "--token", "a b", "--verbose"]`, `["tool", "--token", ` + x + `, "--verbose"]`},
		{"password: |\n  abc\nuser: me", "password: |\n  " + x + "\nuser: me"},
		{"password: >-\n  abc", "password: >-\n  " + x},
		{"eyJhbGciOiJIUzI1NiJ9.eyJzdWIiOiIxIn0.c2lnbmF0dXJl end", x + " end"},
		{"git clone https://user:p@ss@host/repo.git", "git clone https://" + x + "@host/repo.git"},
		{"https://host/path?mail=a@b", "https://host/path?mail=a@b"},
		{`{"Authorization":"Basic dXNl\/cjpwYXNz"}`, `{"Authorization":"Basic ` + x + `"}`},
		{`"Authorization: Basic dXNl\/cjpwYXNz\n"`, `"Authorization: Basic ` + x + `\n"`},
		{`{"h":"X: 1\nAuthorization: Basic dXNlcjpwYXNz"}`, `{"h":"X: 1\nAuthorization: Basic ` + x + `"}`},
		{`"{\"Authorization\":\"Basic dXNlcjpwYXNz\"}"`, `"{\"Authorization\":\"Basic ` + x + `\"}"`},
		{`{\"Authorization\":\"Bearer abcdef\"}`, `{\"Authorization\":\"Bearer ` + x + `\"}`},
		{`a\n--token abc`, `a\n--token ` + x},
		{"rk_test_0123456789abcdef", x},
		{"RAILS_MASTER_KEY=abc; make", "RAILS_MASTER_KEY=" + x + "; make"},
		{"ENCRYPTION_KEY=abc APP_KEY='a b' B=c", "ENCRYPTION_KEY=" + x + " APP_KEY=" + x + " B=c"},
		{"Name=a;AccountKey=abc==;Suffix=b", "Name=a;AccountKey=" + x + ";Suffix=b"},
		{`{"secretKey": "abc", "signingKey":"def"}`, `{"secretKey": ` + x + `, "signingKey":` + x + `}`},
		{"A=b\nDB_PASSWORD=Xy7&kk|92\nC=d", "A=b\nDB_PASSWORD=" + x + "\nC=d"},
		{"+export A_TOKEN=a;b,c\r\n API_KEY=a&b", "+export A_TOKEN=" + x + "\r\n API_KEY=" + x},
		{"curl -d 'token=abc&user=me'\ntoken=abc&user=me 2>&1", "curl -d 'token=" + x + "&user=me'\ntoken=" + x +
			"&user=me 2>&1"},
		{"**Password:** hunter2 and **token**: abc", "**Password:** " + x + " and **token**: " + x},
		{"DB_PASSWORD=***\nSMTP_PASSWORD=\"hunter two\"", "DB_PASSWORD=" + x + "\nSMTP_PASSWORD=" + x},
		{"DB_PASSWORD=***\nDB_HOST=localhost", "DB_PASSWORD=" + x + "\nDB_HOST=localhost"},
		{"password=__\nnext line", "password=" + x + "\nnext line"},
		{"PASSWORD=_Xy7&kk|92", "PASSWORD=" + x},
		{"DB_PASSWORD=\nTOKEN=\"abc def\"", "DB_PASSWORD=\nTOKEN=" + x},
		{"db_password =\ntoken = \"abc def\"", "db_password =\ntoken = " + x},
		{"password =\n  \"abc def\"\n", "password =\n  " + x + "\n"},
		{`{"env":"A=b\nnpm_config_password=hunter2"}`, `{"env":"A=b\n` + x + `=` + x + `"}`},
		{`A\nhf_api_token: abc`, `A\n` + x + `: ` + x},
		{"npm_auth_token=abc sk-service-password=hunter2", x + "=" + x + " " + x + "=" + x},
		{"X-Token: Bearer abc.def", "X-Token: Bearer " + x},
		{`token="Bearer abc.def" bearer token: abc`, `token=` + x + ` bearer ` + x + `: ` + x},
		{"A_TOKEN=bearer\nB=c", "A_TOKEN=" + x + "\nB=c"},
		{"git clone https://x-access-token:abc@host/r", "git clone https://" + x + "@host/r"},
		{"jdbc:db://host;user=a;password=p@ss b://u:p;w@h", "jdbc:db://host;user=a;password=" + x + " b://" + x + "@h"},
		{"A=b\n-APP_KEY=a&b\n", "A=b\n-APP_KEY=" + x + "\n"},
		{`{"content":"A=b\nAPP_KEY=abc"}`, `{"content":"A=b\nAPP_KEY=` + x + `"}`},
		{"\x1b[32mAPP_KEY=abc\x1b[m x", "\x1b[32mAPP_KEY=" + x + " x"},
		{"run -eAPP_KEY=abc -DAPP_KEY=abc env.APP_KEY=abc", "run -eAPP_KEY=" + x + " -DAPP_KEY=" + x + " env.APP_KEY=" + x},
		{"if X_KEY==y || A_KEY == b", "if X_KEY==y || A_KEY == b"},
		{"primary_key: id, foreign_key=user_id, a public key: b", "primary_key: id, foreign_key=user_id, a public key: b"},
		{"key=value PUBLIC_KEY=abc PRIMARY_KEY=id KEYBOARD=de", "key=value PUBLIC_KEY=abc PRIMARY_KEY=id KEYBOARD=de"},
		{`{"key": "value", "dataKey": "uv"}, monkey: banana`, `{"key": "value", "dataKey": "uv"}, monkey: banana`},
		{"the master key is lost, and so are 3 tokens", "the master key is lost, and so are 3 tokens"},
		{"the tokenizer: it reads; tokens=4 token-count", "the tokenizer: it reads; tokens=4 token-count"},
		{"-----BEGIN RSA PRIVATE KEY-----\nMIIE\nabc\n-----END RSA PRIVATE KEY-----\nafter", x + "\nafter"},
		{"-----BEGIN PRIVATE KEY-----\nMIIE cut off", x},
		{"postgres://app:pw@db/x then redis://:pw@cache", "postgres://" + x + "@db/x then redis://" + x + "@cache"},
	} {
		if got := runs.Redact(c.text); got != c.want {
			t.Errorf("%q: %q, want %q", c.text, got, c.want)
		}
	}
}

// A secret in any text field of a record is redacted.
func TestSecretsDoNotReachTheRecord(t *testing.T) {
	forms := []string{"sk-%s", "ghp_%s", "AKIA%s", "Bearer %s", "password=%s", "api_key: %s", "https://u:%s@h/",
		"eyJ%s.%s", "--token %s"}
	rapid.Check(t, func(t *rapid.T) {
		secret := rapid.StringMatching(`[A-Z0-9]{16}`).Draw(t, "secret")
		text := func(label string) string {
			form := rapid.SampledFrom(forms).Draw(t, label)
			return rapid.SampledFrom([]string{"", "x ", "a=b; ", "é"}).Draw(t, label+" before") +
				strings.ReplaceAll(form, "%s", secret)
		}
		r := runs.NewRecord("T-local-x", "codex")
		findings := read("Error: "+text("line")+"\n--- FAIL: TestA/"+text("test")+" (0s)\n", true)
		r.Line(runs.Facts{Activity: "Running " + text("activity"), Command: &findings}, 1)
		open := string(r.JSON()) + r.Summary()
		r.Line(runs.Facts{Error: text("error"), ErrorSource: runs.ErrorTurn, Turn: runs.TurnFailed}, 1)
		r.End(runs.Exit{Reason: runs.ReasonEOF}, 2)
		if all := open + string(r.JSON()) + r.Summary() + r.ErrorContext().Message; strings.Contains(all, secret) {
			t.Fatalf("%s is in %s", secret, all)
		}
	})
	secret := strings.Repeat("Xy7", 100)
	for _, line := range []string{ // of which only the end is kept
		"GET https://h/p?access_token=" + secret + " fatal: denied",
		"Authorization: Bearer eyJ" + secret + "." + secret + "." + secret + " and so on, error: 401",
		"password=" + secret + secret + " " + strings.Repeat("more ", 39) + "fatal: denied",
	} {
		f := read("a\n"+line+"\nb", true)
		end := line[strings.LastIndex(line, secret)+len(secret):]
		if strings.Contains(f.Line, "Xy7") || !strings.HasSuffix(f.Line, end) || len(f.Line) > len(end)+201 {
			t.Errorf("%s: %q", line, f.Line)
		}
	}
}

// What is shown of a long line begins where a secret that began in front of what was read cannot be.
func TestAnErrorBehindALongSecretIsNotShown(t *testing.T) {
	secret := "password=" + strings.Repeat("Xy7", 4000)
	for _, line := range []string{
		secret + " token=" + strings.Repeat("z", 8000) + " fatal: denied",
		secret + " token=" + strings.Repeat("z", 7900) + "?error: 401",
	} {
		if f := read("a\n"+line+"\nb", true); strings.Contains(f.Line, "Xy7") {
			t.Errorf("%.20s: %q", line, f.Line)
		}
	}
	line := strings.Repeat("more ", 2000) + secret[:300] + " fatal: denied"
	if f := read("a\n"+line+"\nb", true); !strings.HasSuffix(f.Line, "password="+runs.Redacted+" fatal: denied") {
		t.Errorf("%q", f.Line)
	}
}

func FuzzRedact(f *testing.F) {
	for _, s := range []string{"password=x", "-----BEGIN A-----", "a://b@", `token\"`, "--token ",
		"bearer xxxx", "secret:\xff"} {
		f.Add(s)
	}
	f.Fuzz(func(t *testing.T, s string) {
		once := runs.Redact(s)
		if utf8.ValidString(s) && !utf8.ValidString(once) {
			t.Errorf("%q became invalid UTF-8: %q", s, once)
		}
		if len(once) > len(s)+len(runs.Redacted)*(len(s)+1) {
			t.Errorf("%d bytes became %d", len(s), len(once))
		}
	})
}
