package mcp

import (
	"context"
	"encoding/json"
	"strings"
	"testing"

	sdk "github.com/modelcontextprotocol/go-sdk/mcp"

	"github.com/linesman/linesman/api"
	"github.com/linesman/linesman/runs"
)

// formsOfAgents are what the agents ask, as their adapters make it.
var formsOfAgents = map[string]struct{ fields, want, content string }{
	"claude": {`{"type":"object","properties":{"question_0":{"type":"string","title":"Store","oneOf":[{"const":"SQLite",` +
		`"title":"SQLite — One file","_meta":{"_claude/askUserQuestionOption":{"description":"One file","preview":"x"}}},` +
		`{"const":"None","title":"None"}]},"question_0_custom":{"type":"string","title":"Other","description":` +
		`"Type your own answer instead of choosing an option above (optional)."},"question_1":{"type":"array","title":` +
		`"Checks","description":"Which?","items":{"anyOf":[{"const":"lint","title":"lint — Fast","_meta":{"_claude/` +
		`askUserQuestionOption":{"description":"Fast"}}}]}}}}`,
		`{"type":"object","properties":{"question_0":{"type":"string","title":"Store","oneOf":[{"const":"SQLite",` +
			`"title":"SQLite — One file"},{"const":"None","title":"None"}]},"question_0_custom":{"type":"string","title":` +
			`"Other","description":"Type your own answer instead of choosing an option above (optional)."},"question_1":{` +
			`"type":"array","title":"Checks","description":"Which?","items":{"anyOf":[{"const":"lint","title":"lint — Fast"}]}}}}`,
		`{"question_0":"SQLite","question_1":["lint"]}`},
	"codex": {`{"type":"object","properties":{"q":{"title":"Which store?","description":"Store","_meta":{"codex":{"isOther":` +
		`true,"isSecret":false}},"type":"string","oneOf":[{"const":"SQLite","title":"SQLite","description":"One file"},` +
		`{"const":"None of the above","title":"None of the above","description":"Provide a different answer in the note ` +
		`field."}]},"q_note":{"type":"string","title":"Additional answer or note","_meta":{"codex":{"questionId":"q","role":` +
		`"user_note","isSecret":false}}}},"required":["q"]}`,
		`{"type":"object","properties":{"q":{"type":"string","title":"Which store?","description":"Store","oneOf":[{` +
			`"const":"SQLite","title":"SQLite — One file"},{"const":"None of the above","title":"None of the above — Provide a ` +
			`different answer in the note field."}]},"q_note":{"type":"string","title":"Additional answer or note"}},` +
			`"required":["q"]}`,
		`{"q":"SQLite"}`},
	"kimi": {`{"type":"object","properties":{"q0":{"type":"string","title":"Store","description":"Where to?","oneOf":[{` +
		`"const":"SQLite","title":"SQLite","description":"One file"},{"const":"None","title":"None"}]},"q1":{"type":"array",` +
		`"title":"Checks","minItems":1,"items":{"anyOf":[{"const":"lint","title":"lint","description":"Fast"}]}}},` +
		`"required":["q0","q1"]}`,
		`{"type":"object","properties":{"q0":{"type":"string","title":"Store","description":"Where to?","oneOf":[{"const":` +
			`"SQLite","title":"SQLite — One file"},{"const":"None","title":"None"}]},"q1":{"type":"array","title":"Checks",` +
			`"items":{"anyOf":[{"const":"lint","title":"lint — Fast"}]},"minItems":1}},"required":["q0","q1"]}`,
		`{"q0":"None","q1":["lint"]}`},
	"members that are null": {`{"type":"object","properties":{"a":{"type":"string","title":null,"format":null,"minLength":null,` +
		`"default":null,"enum":null,"oneOf":null,"items":null,"_meta":null},"b":{"type":"string","format":"date-time"}},` +
		`"required":null}`,
		`{"type":"object","properties":{"a":{"type":"string","title":"a"},"b":{"type":"string","title":"b","format":` +
			`"date-time"}}}`,
		`{"a":"x"}`},
	"values that are not seen": {`{"type":"object","properties":{"a\u202eb":{"type":"string","enum":["x\u00a0y"]},"l":{"type":` +
		`"array","items":{"type":"string","enum":["x\u200b","y"]}},"o":{"type":"string","oneOf":[{"const":"\u200b"}]},` +
		`"default":{"type":"number","default":1.5,"minimum":0}}}`,
		strings.NewReplacer("!", "\u202e", "~", "\u00a0", "^", "\u200b").Replace(`{"type":"object","properties":{"a!b":{` +
			`"type":"string","title":"a⟨U+202E⟩b","enum":["x~y"],"enumNames":["x⟨U+00A0⟩y"]},"default":{"type":"number",` +
			`"title":"default","minimum":0,"default":1.5},"l":{"type":"array","title":"l","items":{"anyOf":[{"const":"x^",` +
			`"title":"x⟨U+200B⟩"},{"const":"y","title":"y"}]}},"o":{"type":"string","title":"o","oneOf":[{"const":"^",` +
			`"title":"⟨U+200B⟩"}]}}}`),
		"{\"a\u202eb\":\"x\u00a0y\",\"default\":1.5,\"l\":[\"x\u200b\"]}"},
}

// The user of a client is asked the forms of the agents: what clients do not know in them is left out, or put into the
// title of a choice.
func TestFormsOfAgentsAreShown(t *testing.T) {
	t.Parallel()
	for agent, c := range formsOfAgents {
		q := api.Question{
			Run: "T-local-polly", ID: "q1", Kind: api.KindForm, Agent: agent, Title: "Which?", Digest: digest,
			Fields: json.RawMessage(c.fields),
		}
		asked := false
		opts := asks(func(_ context.Context, p *sdk.ElicitParams) (*sdk.ElicitResult, error) {
			asked = true
			r := &sdk.ElicitResult{Action: "accept"}
			if err := json.Unmarshal([]byte(c.content), &r.Content); err != nil {
				t.Error(err)
			}
			return r, nil
		})
		d := newDesk()
		everywhere(t, d.config(), opts, func(t *testing.T, client *sdk.ClientSession) {
			d.reset(q)
			asked = false
			waited(t, client, 60)
			if !asked || len(d.answers) != 1 || !strings.HasSuffix(d.answers[0], c.content) {
				t.Errorf("%s: asked %t, answers %q", agent, asked, d.answers)
			}
		})
		if got := form(q, titled); got == nil || string(runs.Encode(got.RequestedSchema)) != c.want {
			t.Errorf("%s: %s, want %s", agent, runs.Encode(got), c.want)
		}
	}
}

// The kind of an option is seen, whatever its name is.
func TestKindOfAnOptionIsSeen(t *testing.T) {
	t.Parallel()
	q := permission("q1")
	q.Options[0].Name = "No (reject once)\n" + strings.Repeat(" \n", 200) + strings.Repeat("x", 1000)
	for _, revision := range []string{elicits, titled} {
		shown := string(runs.Encode(form(q, revision).RequestedSchema))
		if title := `"No (reject once) ` + strings.Repeat("x", 483) + `… (allow once)"`; !strings.Contains(shown, title) {
			t.Errorf("%s: %s", revision, shown)
		}
	}
}

// MCP forbids to ask for secrets by a form: that question stays with the one who waits.
func TestSecretsAreNotAskedForByForms(t *testing.T) {
	fields := formsOfAgents["codex"].fields
	if flat(json.RawMessage(fields), titled) == nil {
		t.Fatal("the form without a secret is not shown")
	}
	for i := range 2 {
		parts := strings.SplitAfter(fields, `"isSecret":`)
		parts[i+1] = strings.Replace(parts[i+1], "false", "true", 1)
		if secret := strings.Join(parts, ""); flat(json.RawMessage(secret), titled) != nil {
			t.Errorf("it is shown: %s", secret)
		}
	}
}
