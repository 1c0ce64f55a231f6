package acp

import (
	"strings"
	"testing"

	"pgregory.net/rapid"
)

// skimmedBy returns what a skim finds in a line that comes in pieces of n bytes.
func skimmedBy(line string, n int) Message {
	var s Skim
	for line := []byte(line); len(line) > 0; line = line[min(n, len(line)):] {
		s.Write(line[:min(n, len(line))])
	}
	return s.Message()
}

func TestSkimFindsIDAndMethod(t *testing.T) {
	nested := `{"id":9,"x":"\"},{\\","y":[{"method":"no"},"]"]}`
	for line, want := range map[string]string{
		`{"jsonrpc":"2.0","id":5,"method":"a/b","params":` + nested + `}`:            `1 5 a/b`,
		` { "params" : ` + nested + ` , "method":"a/b", "id": "5", "jsonrpc":"2.0"}`: `1 "5" a/b`,
		`{"jsonrpc":"2.0","id":5,"id":6,"method":"a","params":` + nested + `}`:       `1 5 a`,
		`{"jsonrpc":"2.0","id":5,"result":` + nested + `}`:                           `3 5 `,
		`{"jsonrpc":"2.0","id":5,"method":` + nested + `}`:                           `3 5 `,
		`{"jsonrpc":"2.0","method":"a","params":` + nested + `}`:                     `0  `,
		`{"jsonrpc":"1.0","id":5,"method":"a"}`:                                      `0  `,
		`{"jsonrpc":"2.0","id":null,"method":"a"}`:                                   `0  `,
		`{"jsonrpc":"2.0","id":"` + strings.Repeat("x", MaxID) + `","method":"a"}`:   `1 "` + strings.Repeat("x", MaxID) + `" a`,
		`{"jsonrpc":"2.0","id":"` + strings.Repeat("x", MaxID+1) + `","method":"a"}`: `0  `,
		`[{"jsonrpc":"2.0","id":5,"method":"a"}]`:                                    `0  `,
		`{}{"jsonrpc":"2.0","id":5,"method":"a"}`:                                    `0  `,
		`"id":5`: `0  `, `}}]`: `0  `, ``: `0  `,
	} {
		for _, n := range []int{1, 3, 1000} {
			m := skimmedBy(line, n)
			got := string('0'+byte(m.Kind)) + "  "
			if m.Kind != invalid {
				got = string('0'+byte(m.Kind)) + " " + m.RequestID() + " " + m.Method.Text()
			}
			if got != want {
				t.Errorf("%s: got %q, want %q", line, got, want)
			}
		}
	}
}

func TestSkimOfACutLineHasWhatIsBefore(t *testing.T) {
	for before, want := range map[string]kind{
		`{"jsonrpc":"2.0","id":5,"method":"a","params":{`: Request,
		`{"jsonrpc":"2.0","id":5,"method":"a"`:            invalid, // perhaps not its end
		`{"jsonrpc":"2.0","id":5,"result":{`:              invalid, // perhaps it has a method
		``:                                                invalid,
	} {
		var s Skim
		s.Write([]byte(before))
		s.Cut()
		s.Write([]byte(`,"id":6,"method":"b"}`))
		if m := s.Message(); m.Kind != want || want == Request && m.RequestID() != "5" {
			t.Errorf("%s: %+v", before, m)
		}
	}
}

// A skim of a valid line finds what [Read] reads.
func TestSkimAgreesWithRead(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		value := rapid.SampledFrom([]string{`"2.0"`, `5`, `"m"`, `{"id":1}`, `[1,{"a":"}"}]`, `null`, `"\"\\"`, `true`, `-1e3`})
		member := rapid.Custom(func(t *rapid.T) string {
			return rapid.SampledFrom([]string{`"jsonrpc"`, `"id"`, `"method"`, `"params"`, `"i\u0064"`}).Draw(t, "key") +
				rapid.SampledFrom([]string{":", " : "}).Draw(t, "colon") + value.Draw(t, "value")
		})
		line := `{"jsonrpc":"2.0",` + strings.Join(rapid.SliceOfNDistinct(member, 1, 4, func(m string) string {
			return m[:4] // keys that differ
		}).Draw(t, "members"), ",") + "}"
		want, _ := Read([]byte(line))
		got := skimmedBy(line, rapid.IntRange(1, 9).Draw(t, "piece"))
		switch {
		case want.Kind == Request && (got.Kind != Request || got.RequestID() != want.RequestID() ||
			got.Method.Text() != want.Method.Text()):
			t.Fatalf("%s: got %+v, want %+v", line, got, want)
		case want.Kind != Request && got.Kind == Request:
			t.Fatalf("%s: a request %+v", line, got)
		}
	})
}

func TestPathsOfAQuestion(t *testing.T) {
	for call, want := range map[string]string{
		`{}`: "true", `{"locations":null}`: "true", `{"locations":{}}`: "false",
		`{"locations":[{"path":"/a","line":1},{"path":"b"}],"content":[{"type":"diff","path":"/c"},{"type":"content"}]}`: "true /a b /c",
		`{"locations":[{"path":"/a"},{"path":""}]}`:                                          "false /a",
		`{"locations":[{"path":"/a"},7]}`:                                                    "false /a",
		`{"locations":[` + strings.Repeat(`{"path":"/"},`, maxPaths) + `{"path":"/"}]}`:      "false" + strings.Repeat(" /", maxPaths),
		`{"content":[{"type":"diff","path":"` + strings.Repeat("x", maxPathBytes+1) + `"}]}`: "false",
		// Inputs of the agents' tools.
		`{"rawInput":{"cwd":"/a"}}`:                                  "true /a",
		`{"rawInput":{"pattern":"KEY","path":"/a"}}`:                 "true /a", // Grep of Claude Code, Qwen Code and opencode
		`{"rawInput":{"pattern":"/a/**/*.pem"}}`:                     "true /a/**/*.pem",
		`{"rawInput":{"pattern":"../*"}}`:                            "false",
		`{"rawInput":{"pattern":"a..b"}}`:                            "true",
		`{"rawInput":{"pattern":"{/etc/*,x}"}}`:                      "false",
		`{"rawInput":{"pattern":"{x,../*}"}}`:                        "false",
		`{"rawInput":{"pattern":"{x,~/*}"}}`:                         "false",
		`{"rawInput":{"pattern":"{.,x}./*"}}`:                        "false", // ../* is one of these
		`{"rawInput":{"pattern":"a/.{x,.}"}}`:                        "false",
		`{"rawInput":{"pattern":"a/{b,.{.,c}}/d"}}`:                  "false",
		`{"rawInput":{"pattern":"{.,a}{b,.}/c"}}`:                    "false",
		`{"rawInput":{"pattern":"{,x}/etc/*"}}`:                      "false",
		`{"rawInput":{"pattern":"{x,{y,}}/etc/*"}}`:                  "false",
		`{"rawInput":{"pattern":"a{2,3}/{b,c}"}}`:                    "true",
		`{"rawInput":{"pattern":"{.a,b}/.{c,d}/*.{go,x.y}"}}`:        "true",
		`{"rawInput":{"pattern":"a{,b}/./{c.,d..}/..."}}`:            "true",
		`{"rawInput":{"pattern":["/a"]}}`:                            "false",
		`{"rawInput":{"file_path":"/a"},"locations":[]}`:             "true /a",
		`{"rawInput":{"filePath":"/a","filepath":"/b"}}`:             "true /a /b",
		`{"rawInput":{"absolute_path":"/a"}}`:                        "true /a",
		`{"rawInput":{"notebook_path":"/a"}}`:                        "true /a",
		`{"rawInput":{"dir_path":"/a","directory":"/b"}}`:            "true /a /b",
		`{"rawInput":{"path":null}}`:                                 "true",
		`{"rawInput":{"path":["/a"]}}`:                               "false",
		`{"rawInput":{"paths":["/a"]}}`:                              "false",
		`{"rawInput":{"path":"~/.ssh"}}`:                             "false",
		`{"locations":[{"path":"file:///etc/passwd"},{"path":"b"}]}`: "false b",
	} {
		m, _ := Read([]byte(`{"jsonrpc":"2.0","id":1,"method":"session/request_permission","params":{"toolCall":` + call + `}}`))
		f := FilesOf(m.QuestionOf().ToolCall)
		got := strings.Join(append([]string{map[bool]string{true: "true", false: "false"}[f.Whole]}, f.Paths...), " ")
		if got != want {
			t.Errorf("%.80s: got %.80s, want %.80s", call, got, want)
		}
	}
}

func TestCommandOfAQuestion(t *testing.T) {
	longest := strings.Repeat("x", maxCommand)
	for call, want := range map[string]struct {
		command string
		unread  bool
	}{
		`{}`: {}, `{"rawInput":{}}`: {}, `{"rawInput":{"command":""}}`: {},
		`{"rawInput":{"command":"git push"}}`:          {"git push", false},
		`{"rawInput":{"command":"` + longest + `"}}`:   {longest, false},
		`{"rawInput":{"command":"` + longest + ` x"}}`: {"", true},
		`{"rawInput":{"command":["sh","-c","x"]}}`:     {"", true},
		`{"rawInput":{"command":{"text":"git push"}}}`: {"", true},
		`{"rawInput":{"argv":["a","list","is","it"]}}`: {},
	} {
		m, _ := Read([]byte(`{"jsonrpc":"2.0","id":1,"method":"session/request_permission","params":{"toolCall":` + call + `}}`))
		if q := m.QuestionOf(); q.Command != want.command || q.Unread != want.unread {
			t.Errorf("%.80s: %.80q, unread %t", call, q.Command, q.Unread)
		}
	}
}
