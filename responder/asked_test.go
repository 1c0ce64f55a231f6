package responder

import (
	"fmt"
	"slices"
	"strings"
	"testing"

	"github.com/linesman/linesman/agent/acp"
	"github.com/linesman/linesman/api"
	"github.com/linesman/linesman/runs"
)

// asking returns a permission request as it is shown: for an edit of a file, with a command and a title.
func asking(t *testing.T, title, command, text string) *request {
	t.Helper()
	line := fmt.Sprintf(`{"jsonrpc":"2.0","id":1,"method":"session/request_permission","params":{"sessionId":"s","toolCall":`+
		`{"toolCallId":"c","title":%s,"kind":"edit","rawInput":{"command":%s},"content":[{"type":"diff","path":"/w/a",`+
		`"oldText":"one\n","newText":%s}]},"options":[{"optionId":"y","name":"Yes","kind":"allow_once"},`+
		`{"optionId":"n","name":"No","kind":"reject_once"},{"optionId":"z","name":"Always","kind":"allow_always"}]}}`,
		runs.Encode(title), runs.Encode(command), runs.Encode(text))
	q := &request{Asked: runs.Asked{ID: "q1", Kind: api.KindPermission}, line: []byte(line), digest: "d", always: true}
	if q.read(); q.asks.Kind == "" {
		t.Fatalf("no request: %s", line)
	}
	q.shown = q.question(runs.NewRecord("r", "codex"))
	return q
}

// What is allowed was shown in full, or its digest is given. What is denied need not be.
func TestOnlyWhatIsShownIsAllowed(t *testing.T) {
	many := strings.Repeat("x\n", acp.MaxAsked/2)
	for _, test := range []struct {
		q   *request
		cut bool
	}{
		{asking(t, "t", "c", "two\n"), false},
		{asking(t, "t"+many, "c", "two\n"), true},
		{asking(t, "t", "c"+many, "two\n"), true},
		{asking(t, "t", "c", many), true},
		{asking(t, "t", "c", strings.Repeat(many, 32)), true},
	} {
		if test.q.shown.Cut != test.cut {
			t.Errorf("cut: %t, want %t", test.q.shown.Cut, test.cut)
		}
		for option, allows := range map[string]bool{"allow": true, "y": true, "z": true, "deny": false, "n": false} {
			err := test.q.check(&runs.Command{}, api.AnswerRequest{Option: option})
			if refused := err != nil; refused != (test.cut && allows) {
				t.Errorf("%s of a question that is cut, %t: %v", option, test.cut, err)
			}
			if err := test.q.check(&runs.Command{}, api.AnswerRequest{Option: option, Digest: "d"}); err != nil {
				t.Errorf("%s with the digest: %v", option, err)
			}
			if err := test.q.check(&runs.Command{}, api.AnswerRequest{Option: option, Digest: "e"}); err == nil {
				t.Errorf("%s with another digest is taken", option)
			}
		}
	}
}

// Whatever an agent writes, its question fits into a message, or no question of any run could be listed. What is left
// out takes the digest.
func TestQuestionFitsIntoAMessage(t *testing.T) {
	hidden := strings.Repeat("\u00a0", acp.MaxAsked/2-1) // grows most
	var paths, diffs, options []string
	for i := range 64 {
		paths = append(paths, fmt.Sprintf(`{"path":"%d%s"}`, i, hidden[4:]))
		diffs = append(diffs, fmt.Sprintf(`{"type":"diff","path":"%d%s","oldText":"a","newText":"%s"}`, i,
			strings.Repeat("<", acp.MaxAsked-2), strings.Repeat("<", acp.MaxAsked)))
	}
	for i := range 32 {
		options = append(options, fmt.Sprintf(`{"optionId":"o%d%s","kind":"allow_once","name":"%s"}`, i,
			strings.Repeat("<", acp.MaxOption-3), strings.Repeat("&", acp.MaxAsked)))
	}
	permission := func(call string, options ...string) string {
		return `"session/request_permission","params":{"toolCall":{` + call + `},"options":[` + strings.Join(options, ",") +
			`]}}`
	}
	form := `"elicitation/create","params":{"mode":"form","message":"` + hidden + `","requestedSchema":{"title":"` +
		hidden[:len(hidden)-20] + `"}}}`
	yes := `{"optionId":"y","kind":"allow_once","name":"Yes"}`
	for _, test := range []struct {
		request string
		options int
		cut     bool
	}{
		{permission(`"locations":[`+strings.Join(paths, ",")+`]`, yes), 1, true},
		{permission(`"content":[`+strings.Join(diffs, ",")+`]`, yes), 1, true},
		{permission(`"title":"`+hidden+`","rawInput":{"command":"`+hidden+`"},"content":[{"content":{"text":"`+hidden+
			`"}}]`, yes), 1, true},
		{permission(`"title":"`+hidden+`","rawInput":{"command":"`+hidden+`"}`, yes), 1, false},
		{permission("", options...), 32, true},
		{form, 0, false},
	} {
		line := []byte(`{"jsonrpc":"2.0","id":1,"method":` + test.request)
		q := &request{Asked: runs.Asked{ID: "q1"}, digest: "d", line: line}
		if q.read(); q.asks.Kind == "" || len(q.line) > runs.MaxLiveLine {
			t.Fatalf("no request: %.80s, %d bytes", q.line, len(q.line))
		}
		q.shown = q.question(runs.NewRecord("r", "codex"))
		size := len(runs.Encode(q.shown))
		if size > maxQuestionBytes || q.shown.Cut != test.cut || len(q.shown.Options) != test.options {
			t.Errorf("%.80s: %d bytes of %d, cut: %t, %d options", test.request, size, maxQuestionBytes, q.shown.Cut,
				len(q.shown.Options))
		}
	}
}

// The setting of the worker that started the run decides whether an option that lasts is offered, and taken.
func TestOptionsThatLastAreOfferedByTheSetting(t *testing.T) {
	for _, always := range []bool{false, true} {
		q := asking(t, "t", "c", "two\n")
		q.always = always
		shown := q.question(runs.NewRecord("r", "codex"))
		offered := slices.ContainsFunc(shown.Options, func(o api.QuestionOption) bool { return o.ID == "z" })
		if offered != always || len(shown.Options) < 2 {
			t.Errorf("always %t: offered are %+v", always, shown.Options)
		}
		err := q.check(&runs.Command{}, api.AnswerRequest{Option: "z"})
		if (err == nil) != always || err != nil && !strings.Contains(err.Error(), "the worker's setting live.always") {
			t.Errorf("always %t: %v", always, err)
		}
	}
}

// An agent may call an option deny that allows, or allow what denies: the words mean what they say, and such an option
// is not offered. A question that is cut cannot be allowed by any name.
func TestWordsAreNoNamesOfOtherOptions(t *testing.T) {
	for _, c := range []struct {
		options, option string
		cut             bool
		want            string // "-": refused, "": closed without an option
	}{
		{"deny allow_once", "deny", false, ""},
		{"deny allow_once", "deny", true, ""},
		{"deny allow_once", "allow", false, "-"},
		{"deny allow_once, r reject_once", "deny", true, "r"},
		{"allow reject_once, a allow_once", "allow", false, "a"},
		{"allow reject_once", "deny", false, ""},
		{"allow reject_once", "allow", false, "-"},
		{"allow allow_once, deny reject_once", "allow", false, "allow"},
		{"allow allow_once, deny reject_once", "deny", true, "deny"},
		{"deny reject_always, r reject_once", "deny", false, "r"},
		{"deny reject_always", "deny", false, ""},
		{"allow allow_always, a allow_once", "allow", false, "a"},
		{"cancel allow_once", "cancel", true, "-"},
		{"decline allow_once", "decline", true, "-"},
		{"cancel allow_once", "cancel", false, "cancel"},
	} {
		var options []string
		for one := range strings.SplitSeq(c.options, ", ") {
			id, kind, _ := strings.Cut(one, " ")
			options = append(options, fmt.Sprintf(`{"optionId":%q,"kind":%q,"name":"x"}`, id, kind))
		}
		q := &request{Asked: runs.Asked{ID: "q1", Kind: api.KindPermission}, digest: "d",
			line: fmt.Appendf(nil, `{"jsonrpc":"2.0","id":1,"method":"session/request_permission","params":{"sessionId":"s",`+
				`"toolCall":{"toolCallId":"c"},"options":[%s]}}`, strings.Join(options, ","))}
		q.read()
		q.shown = q.question(runs.NewRecord("r", "codex"))
		q.shown.Cut = c.cut
		cmd := runs.Command{Option: c.option}
		if err := q.check(&cmd, api.AnswerRequest{Option: c.option}); err != nil {
			cmd.Option = "-"
		}
		if cmd.Option != c.want {
			t.Errorf("%s of %s, cut %t: %q, want %q", c.option, c.options, c.cut, cmd.Option, c.want)
		}
	}
}

func TestHiddenCharactersAreVisible(t *testing.T) {
	q := asking(t, "a\u202eb", "rm\u00a0-r\x1b[2J\u200b x\r\n\ty", "two\u2066\n").shown
	if q.Title != "a⟨U+202E⟩b" || q.Command != "rm⟨U+00A0⟩-r⟨U+001B⟩[2J⟨U+200B⟩ x⟨U+000D⟩\n\ty" ||
		q.Files[0].Diff != "@@ -1 +1 @@\n-one\n+two⟨U+2066⟩\n" {
		t.Errorf("%+v", q)
	}
}

// formOf returns a form as it is shown.
func formOf(t *testing.T, schema string) *request {
	t.Helper()
	q := &request{Asked: runs.Asked{ID: "q1", Kind: api.KindForm}, digest: "d", line: []byte(`{"jsonrpc":"2.0","id":1,` +
		`"method":"elicitation/create","params":{"sessionId":"s","mode":"form","message":"m","requestedSchema":` + schema + `}}`)}
	if q.read(); q.asks.Kind == "" {
		t.Fatalf("no request: %s", schema)
	}
	q.shown = q.question(runs.NewRecord("r", "codex"))
	return q
}

// What people read of a form is visible. What is sent back is as the agent wrote it, and is taken.
func TestFormIsAnsweredWithItsOwnValues(t *testing.T) {
	unseen := strings.NewReplacer("~", "\u00a0", "^", "\u200b", "%", "\u200d").Replace
	for schema, c := range map[string]struct{ shown, content string }{
		`{"type":"object","properties":{"b":{"oneOf":[{"const":"a~b","title":"a~b"}]},"a":{}}}`: {
			`{"type":"object","properties":{"b":{"oneOf":[{"const":"a~b","title":"a⟨U+00A0⟩b"}]},"a":{}}}`,
			`{"b":"a~b"}`},
		`{"properties":{"b":{"oneOf":[{"const":"a\u202eb","title":"a\u202eb"}]}}}`: {
			`{"properties":{"b":{"oneOf":[{"const":"a\u202eb","title":"a⟨U+202E⟩b"}]}}}`, `{"b":"a\u202eb"}`},
		`{"properties":{"title":{"items":{"enum":["👩%💻"]},"description":"x^"}},"required":["title"]}`: {
			`{"properties":{"title":{"items":{"enum":["👩%💻"]},"description":"x⟨U+200B⟩"}},"required":["title"]}`,
			`{"title":["👩%💻"]}`},
		`{"properties":{"default":{"title":"^","enum":["^"],"enumNames":["^",7],"default":"^"}}}`: {
			`{"properties":{"default":{"title":"⟨U+200B⟩","enum":["^"],"enumNames":["⟨U+200B⟩",7],"default":"^"}}}`,
			`{"default":"^"}`},
		`{"properties":{"a~b":{"const":{"title":"~"},"title":null}}}`: {
			`{"properties":{"a~b":{"const":{"title":"~"},"title":null}}}`,
			`{"a~b":{"title":"~"}}`},
	} {
		schema, c.shown, c.content = unseen(schema), unseen(c.shown), unseen(c.content)
		q := formOf(t, schema)
		if got := string(q.shown.Fields); got != c.shown {
			t.Errorf("%s is shown as %s, want %s", schema, got, c.shown)
		}
		if err := q.check(&runs.Command{}, api.AnswerRequest{Content: []byte(c.content)}); err != nil {
			t.Errorf("%s is no answer to %s: %v", c.content, schema, err)
		}
		if text := QueryText(&q.shown, 1<<20); strings.ContainsAny(text, "\u00a0\u200b\u200d\u202e") {
			t.Errorf("the text has what is not seen: %q", text)
		}
	}
}

// A form that is too long to be shown is answered with its digest.
func TestLongFormTakesItsDigest(t *testing.T) {
	long := strings.Repeat("x", acp.MaxAsked)
	q := formOf(t, `{"properties":{"a":{"title":"`+long+`","type":"string"}}}`)
	if q.shown.Fields != nil || !q.shown.Cut {
		t.Errorf("it is shown: %+v", q.shown)
	}
	for content, digests := range map[string]map[string]bool{
		`{"a":"x"}`: {"": false, "e": false, "d": true}, `{"a":1}`: {"d": false},
	} {
		for digest, taken := range digests {
			err := q.check(&runs.Command{}, api.AnswerRequest{Content: []byte(content), Digest: digest})
			if (err == nil) != taken {
				t.Errorf("%s with the digest %q: %v", content, digest, err)
			}
		}
	}
	q = formOf(t, `{"properties":{"a":{"title":"`+long+`","pattern":"x"}}}`) // its cost has no known bound
	if err := q.check(&runs.Command{}, api.AnswerRequest{Content: []byte(`{"a":"x"}`), Digest: "d"}); err == nil {
		t.Error("a pattern of a form that is not shown is used")
	}
}

func TestFormsTakeWhatTheirFieldsSay(t *testing.T) {
	fields := `{"type":"object","properties":{"n":{"type":"integer","maximum":9}},"required":["n"]}`
	q := &request{
		Asked: runs.Asked{ID: "q1", Kind: api.KindForm}, digest: "d",
		asks: acp.Asked{Kind: api.KindForm, Fields: []byte(fields)},
	}
	for answer, want := range map[*api.AnswerRequest]string{
		{Content: []byte(`{"n": 3}`)}:                  `accept {"n":3}`,
		{Content: []byte(`{"n":3}`), Option: "accept"}: `accept {"n":3}`,
		{Option: "decline"}:                            "decline ",
		{Option: "deny"}:                               "decline ",
		{Option: "cancel"}:                             " ",
		{}:                                             "",
		{Option: "allow"}:                              "",
		{Content: []byte(`{"n":"secret"}`)}:            "",
		{Content: []byte(`{}`)}:                        "",
		{Content: []byte(`[]`)}:                        "",
		{Content: []byte(`{"n":3}`), Option: "decline"}: "",
	} {
		var cmd runs.Command
		err := q.check(&cmd, *answer)
		if got := cmd.Option + " " + string(cmd.Content); (err == nil) != (want != "") || err == nil && got != want {
			t.Errorf("%+v: %q, %v", *answer, got, err)
		}
		if err != nil && strings.Contains(err.Error(), "secret") {
			t.Errorf("the value is in the error: %v", err)
		}
	}
	q.asks.Fields = []byte(`{"type":"object","title":null,"required":["two"],"properties":{"two":{"type":"array","minItems":1,` +
		`"maxItems":2,"default":null,"items":{"anyOf":[{"const":"a","title":"A"},{"const":"b","title":"B"},{"const":"c",` +
		`"title":"C"}]}},"any":{"type":"array","minItems":null,"items":{"type":"string","enum":["x","y"]}},"one":{"type":` +
		`"string","enum":null,"pattern":null,"oneOf":[{"const":"a","title":"A"}]}}}`)
	for content, want := range map[string]bool{
		`{"two":["a"]}`: true, `{"two":["b","c"],"any":["x","y"],"one":"a"}`: true, `{"two":["a"],"any":[]}`: true,
		`{"two":[]}`: false, `{"two":["a","b","c"]}`: false, `{"two":["d"]}`: false, `{"two":"a"}`: false, `{}`: false,
		`null`: false, `1`: false, `"a"`: false, `{"two":null}`: false, `{"two":{"a":1}}`: false, `{"two":["a"],"more":1}`: true,
		`{"two":["a"],"any":["a"]}`: false, `{"two":["a"],"one":"b"}`: false, `{"two":["a"],"one":["a"]}`: false,
	} {
		if err := q.check(&runs.Command{}, api.AnswerRequest{Content: []byte(content)}); (err == nil) != want {
			t.Errorf("%s: %v", content, err)
		}
	}
	long := `{"two":["a"],"more":"` + strings.Repeat("x", 10<<10) + `"}`
	for schema, fits := range map[string]bool{
		`{"properties":{"more":{"pattern":"^x*$"}}}`:                                            true,
		`{"properties":{"more":{"anyOf":[` + strings.Repeat(`{"pattern":"y"},`, 60) + `{}]}}}`:  false,
		`{"properties":{"more":{"anyOf":[` + strings.Repeat(`{"type":"null"},`, 800) + `{}]}}}`: false,
		`{"properties":{"two":{"items":{"enum":[` + strings.Repeat(`"b",`, 800) + `"a"]}}}}`:    true,
	} {
		q.asks.Fields = []byte(schema)
		if err := q.check(&runs.Command{}, api.AnswerRequest{Content: []byte(long)}); (err == nil) != fits {
			t.Errorf("%.80s: %v", schema, err)
		}
	}
	laughs := `{"$ref":"#/$defs/0","$defs":{"40":{}` // 2 to the 40th checks
	for i := range 40 {
		laughs += fmt.Sprintf(`,"%d":{"allOf":[{"$ref":"#/$defs/%d"},{"$ref":"#/$defs/%[2]d"}]}`, i, i+1)
	}
	for _, schema := range []string{
		`{"$ref":"file:///etc/passwd"}`, `{"$schema":"http://127.0.0.1:1/x"}`, `{"not":{"$dynamicRef":"#"}}`, laughs + "}}",
		strings.Repeat(`{"not":`, 2000) + "{}" + strings.Repeat("}", 2000), `[`, `{"type":"nothing"}`,
	} {
		q.asks.Fields = []byte(schema)
		if err := q.check(&runs.Command{}, api.AnswerRequest{Content: []byte(`{}`)}); err == nil ||
			!strings.Contains(err.Error(), "decline or cancel") {
			t.Errorf("the schema %.60s: %v", schema, err)
		}
	}
}
