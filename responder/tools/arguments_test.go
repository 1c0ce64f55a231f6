package tools_test

import (
	"bytes"
	"encoding/json"
	"fmt"
	"os"
	"slices"
	"strings"
	"testing"

	"github.com/santhosh-tekuri/jsonschema/v6"

	"github.com/linesman/linesman/responder"
	"github.com/linesman/linesman/responder/tools"
	v36 "github.com/linesman/linesman/responder/v36"
)

// good are arguments that a tool takes, as pairs.
var good = map[string][]any{
	"_codex_local_run":               {"task", "Fix it.", "async", true},
	"_codex_local_exec":              {"task", "Fix it."},
	"_codex_local_resume":            {"threadId", "01a1fd7b-f84f-78d0-8880-a6cacce2ab1b", "task", "Go on."},
	"_codex_local_status":            {},
	"_codex_local_results":           {"task_id", "T-none"},
	"_codex_local_wait":              {"task_id", "T-none"},
	"_codex_local_cancel":            {"task_id", "T-none"},
	"_codex_cloud_submit":            {"task", "Fix it.", "envId", "env"},
	"_codex_cloud_status":            {},
	"_codex_cloud_results":           {"taskId", "task_e_1"},
	"_codex_cloud_wait":              {"task_id", "task_e_1"},
	"_codex_cloud_cancel":            {"task_id", "task_e_1"},
	"_codex_cloud_list_environments": {},
	"_codex_cloud_github_setup":      {"repoUrl", "https://github.com/owner/repo", "stack", "go"},
	"_codex_cleanup_registry":        {"dryRun", true},
}

// inputs is the schema of a tool's arguments.
type inputs struct {
	Properties map[string]struct {
		Type      string
		Enum      []string
		MaxLength int
		Minimum   *int64
		Maximum   *int64
		MaxItems  int
	}
	Required []string
}

func inputsOf(t testing.TB, tool v36.Tool) inputs {
	t.Helper()
	var in inputs
	if err := json.Unmarshal(tool.InputSchema, &in); err != nil {
		t.Fatalf("%s: %v", tool.Name, err)
	}
	return in
}

// with replaces or adds an argument.
func with(pairs []any, name string, value any) []any {
	pairs = slices.Clone(pairs)
	for i := 0; i < len(pairs); i += 2 {
		if pairs[i] == name {
			pairs[i+1] = value
			return pairs
		}
	}
	return append(pairs, name, value)
}

func without(pairs []any, name string) []any {
	var rest []any
	for i := 0; i < len(pairs); i += 2 {
		if pairs[i] != name {
			rest = append(rest, pairs[i], pairs[i+1])
		}
	}
	return rest
}

func other(name string) string {
	var b strings.Builder
	up := false
	for _, c := range name {
		switch {
		case c == '_':
			up = true
		case up:
			b.WriteString(strings.ToUpper(string(c)))
			up = false
		case 'A' <= c && c <= 'Z':
			b.WriteString("_" + strings.ToLower(string(c)))
		default:
			b.WriteRune(c)
		}
	}
	return b.String()
}

// refused checks that a call was refused because of a field.
func refused(t *testing.T, a answer, field string, json bool) {
	t.Helper()
	if a.Error.Code != "VALIDATION" || a.Error.Details["field"] != field || a.Error.Retryable ||
		!strings.HasPrefix(a.Error.Message, field+": ") {
		t.Errorf("want VALIDATION of %s, got %.600s", field, a.Envelope)
	}
	if a.JSON != json {
		t.Errorf("JSON is %v, want %v", a.JSON, json)
	}
	if len(a.Envelope) > 16<<10 || len(a.Text()) > 16<<10 {
		t.Errorf("a refusal of %d and %d bytes", len(a.Envelope), len(a.Text()))
	}
	if !a.JSON && (!strings.Contains(a.Text(), "VALIDATION") || !strings.Contains(a.Text(), field)) {
		t.Errorf("the page does not name %s: %s", field, a.Text())
	}
}

const sentinel = "S3NTINEL-s3ntinel"

// TestEveryToolRefusesBadArguments goes over all parameters of all tools.
func TestEveryToolRefusesBadArguments(t *testing.T) {
	t.Parallel()
	s := newStage(t, nil)
	calls := 0
	for _, tool := range tools.List() {
		in := inputsOf(t, tool)
		for _, format := range []string{"markdown", "json", ""} {
			base := good[tool.Name]
			if format != "" {
				base = with(base, "format", format)
			}
			try := func(field string, pairs []any) {
				t.Helper()
				calls++
				a := ask(t, s.tools, tool.Name, args(pairs...))
				refused(t, a, field, format == "json")
				if bytes.Contains(a.Envelope, []byte(sentinel)) || strings.Contains(a.Text(), sentinel) {
					t.Errorf("%s: what was sent comes back: %s", tool.Name, a.Envelope)
				}
			}
			for name, p := range in.Properties {
				if name == "format" {
					continue
				}
				var bad []any
				switch {
				case p.Enum != nil:
					bad = []any{1, nil, "", "x " + sentinel, []string{p.Enum[0]}, strings.ToUpper(p.Enum[0])}
				case p.Type == "string":
					bad = []any{1, true, nil, "", " \t ", []string{sentinel}, map[string]any{}, strings.Repeat("é", p.MaxLength+1),
						sentinel + "\x00"}
				case p.Type == "integer":
					bad = []any{"1", 1.5, nil, true, *p.Minimum - 1, *p.Maximum + 1, json.Number("1e400"), json.Number("-1e400"),
						json.Number(strings.Repeat("9", 5000)), []int{1}}
				case p.Type == "boolean":
					bad = []any{"true", 1, nil, []bool{true}}
				case p.Type == "object":
					bad = []any{"{}", []any{}, nil, json.RawMessage(strings.Repeat(`{"a":`, 100) + "1" + strings.Repeat("}", 100))}
				case p.Type == "array":
					bad = []any{"A", []int{1}, nil, map[string]any{}, slices.Repeat([]string{"A"}, p.MaxItems+1)}
				default:
					t.Fatalf("%s: parameter %s has type %q", tool.Name, name, p.Type)
				}
				for _, value := range bad {
					try(name, with(base, name, value))
					if alias := other(name); alias != name { // under its other name too
						try(alias, with(without(base, name), alias, value))
					}
				}
			}
			for _, name := range in.Required {
				try(name, without(base, name))
			}
			try("nonsense", with(base, "nonsense", sentinel))
		}
	}
	if calls < 1500 {
		t.Errorf("only %d calls were made", calls)
	}
}

func TestFormatThatIsNoneIsRefused(t *testing.T) {
	t.Parallel()
	s := newStage(t, nil)
	for _, tool := range tools.List() {
		for value, json := range map[string]bool{`"xml"`: false, `1`: false, `null`: false, `"JSON"`: true, `["json"]`: true,
			`{"a":"json"}`: true} {
			refused(t, ask(t, s.tools, tool.Name, args(good[tool.Name]...)[:1]+`"format":`+value+
				map[bool]string{true: ","}[len(good[tool.Name]) > 0]+args(good[tool.Name]...)[1:]), "format", json)
		}
	}
}

func TestUnknownNameSuggestsAKnownOne(t *testing.T) {
	t.Parallel()
	s := newStage(t, nil)
	for _, c := range []struct{ tool, name, meant string }{
		{"_codex_local_run", "working_directory", ""},
		{"_codex_local_run", "workDir", "workingDir"},
		{"_codex_local_run", "Task", "task"},
		{"_codex_local_run", "envpolicy", "envPolicy"},
		{"_codex_local_wait", "taskid", "task_id"},
		{"_codex_local_wait", "timeout", "timeout_sec"},
		{"_codex_cleanup_registry", "dryrun", "dryRun"},
		{"_codex_cloud_submit", "env", ""},
	} {
		a := ask(t, s.tools, c.tool, args(with(good[c.tool], c.name, "x")...))
		refused(t, a, c.name, false)
		meant, _ := a.Error.Details["did_you_mean"].(string)
		if c.meant != "" && meant != c.meant {
			t.Errorf("%s: %s: did you mean %q, want %q", c.tool, c.name, meant, c.meant)
		}
		if meant != "" && !strings.Contains(a.Error.Message, "did you mean "+meant+"?") {
			t.Errorf("the message does not say what was meant: %s", a.Error.Message)
		}
	}
}

func TestBothNamesOfAParameterMustAgree(t *testing.T) {
	t.Parallel()
	s := newStage(t, nil)
	if a := ask(t, s.tools, "_codex_local_results",
		`{"task_id":"T-none","taskId":"T-none"}`); a.Error.Code != "NOT_FOUND" {
		t.Errorf("the same value twice: %s", a.Envelope)
	}
	refused(t, ask(t, s.tools, "_codex_local_results", `{"task_id":"T-none","taskId":"T-other"}`), "taskId", false)
	refused(t, ask(t, s.tools, "_codex_local_results", `{"task_id":"T-none","task_id":"T-none"}`), "task_id", false)
	if a := ask(t, s.tools, "_codex_local_results", `{"taskId":"T-none"}`); a.Error.Code != "NOT_FOUND" {
		t.Errorf("by the alias: %s", a.Envelope)
	}
}

func TestAllMistakesAreReportedAtOnce(t *testing.T) {
	t.Parallel()
	s := newStage(t, nil)
	a := ask(t, s.tools, "_codex_local_run", args("tusk", "x", "mode", "workspace-write", "working_dir", "relative",
		"timeoutSec", 0,
		"envAllowList", []string{"1BAD"}, "outputSchema", map[string]string{"a": strings.Repeat("x", 70_000)}, "format",
		"json"))
	var fields []string
	for _, i := range a.Error.Details["issues"].([]any) {
		fields = append(fields, i.(map[string]any)["field"].(string))
	}
	slices.Sort(fields)
	want := []string{"confirm", "envAllowList", "outputSchema", "task", "timeoutSec", "tusk", "working_dir"}
	if !slices.Equal(fields, want) {
		t.Errorf("told %q, want %q: %s", fields, want, a.Envelope)
	}
	var many []any
	for i := range 60 {
		many = append(many, fmt.Sprintf("name%d", i), 1)
	}
	a = ask(t, s.tools, "_codex_local_status", args(many...))
	if n := len(a.Error.Details["issues"].([]any)); n != 20 || a.Error.Details["issues_unlisted"] != 40.0 {
		t.Errorf("%d issues, %v unlisted", n, a.Error.Details["issues_unlisted"])
	}
}

// hostile are arguments that are none.
var hostile = map[string]string{
	"null":           `null`,
	"array":          `[1]`,
	"string":         `"` + sentinel + `"`,
	"number":         `1`,
	"torn":           `{"task_id":"` + sentinel,
	"two values":     `{} {}`,
	"trailing comma": `{"task":"x",}`,
	"invalid utf-8":  "{\"task\":\"\xff\xfe" + sentinel + "\"}",
	"not json":       sentinel,
	"too deep":       strings.Repeat("[", 20_000) + strings.Repeat("]", 20_000),
	"deep argument":  `{"x":` + strings.Repeat(`{"a":`, 20_000) + "1" + strings.Repeat("}", 20_001),
	"too large":      `{"task":"` + strings.Repeat("a", 1<<20) + `"}`,
	"long name":      `{"` + sentinel + strings.Repeat("a", 500_000) + `":1}`,
	"name of marks":  "{\"" + "```\\n# " + sentinel + "\":1}",
	"nul":            "{\"task\":\"\\u0000\",\"" + sentinel + "\\u0000\":1}",
	"raw nul":        "{\"task\":\"\x00\"}",
	"many names":     "{" + strings.TrimSuffix(strings.Repeat(`"a":1,`, 20_000), ",") + "}",
}

func TestHostileArgumentsAreRefused(t *testing.T) {
	t.Parallel()
	s := newStage(t, nil)
	for _, tool := range tools.List() {
		for name, raw := range hostile {
			for _, json := range []bool{false, true} {
				raw := raw
				if json { // somewhere, where it can be read at all
					raw = strings.Replace(raw, "{", `{"format":"json",`, 1)
					if raw == hostile[name] {
						continue
					}
				}
				a := ask(t, s.tools, tool.Name, raw)
				if a.Error.Code != "VALIDATION" || a.Error.Retryable || a.Error.Details["field"] == nil {
					t.Errorf("%s, %s: %.300s", tool.Name, name, a.Envelope)
				}
				if a.JSON != json {
					t.Errorf("%s, %s: JSON is %v, want %v", tool.Name, name, a.JSON, json)
				}
				if len(a.Envelope)+len(a.Text()) > 32<<10 {
					t.Errorf("%s, %s: an answer of %d and %d bytes", tool.Name, name, len(a.Envelope), len(a.Text()))
				}
				if strings.Contains(a.Text()+string(a.Envelope), sentinel) {
					t.Errorf("%s, %s: what was sent comes back: %.300s", tool.Name, name, a.Envelope)
				}
			}
		}
	}
}

func TestNoArgumentsAreAnEmptyObject(t *testing.T) {
	t.Parallel()
	s := newStage(t, nil)
	for _, raw := range []string{"", " ", "{}"} {
		if a := ask(t, s.tools, "_codex_local_status", raw); a.IsError {
			t.Errorf("%q: %s", raw, a.Envelope)
		}
	}
}

func TestUnknownToolIsAnError(t *testing.T) {
	t.Parallel()
	s := newStage(t, nil)
	for _, name := range []string{"", "_codex_local", "_codex_local_run ", sentinel} {
		//nolint:errorlint // it is that error alone
		if _, err := s.tools.Call(t.Context(), name, json.RawMessage(`{}`), nil); err != v36.ErrUnknownTool {
			t.Errorf("%q: %v", name, err)
		}
	}
}

func TestToolsAreThoseOfTheContract(t *testing.T) {
	compiler := jsonschema.NewCompiler()
	var names []string
	for i, tool := range tools.List() {
		names = append(names, tool.Name)
		if tool.Title == "" || tool.Description == "" || tool.Category == "" {
			t.Errorf("%s says too little of itself", tool.Name)
		}
		doc, err := jsonschema.UnmarshalJSON(bytes.NewReader(tool.InputSchema))
		if err != nil {
			t.Fatal(err)
		}
		uri := fmt.Sprintf("test://%d", i)
		if err := compiler.AddResource(uri, doc); err != nil {
			t.Fatal(err)
		}
		compiled, err := compiler.Compile(uri)
		if err != nil {
			t.Fatalf("%s: %v", tool.Name, err)
		}
		instance, err := jsonschema.UnmarshalJSON(strings.NewReader(args(good[tool.Name]...)))
		if err != nil {
			t.Fatal(err)
		}
		if err := compiled.Validate(instance); err != nil {
			t.Errorf("%s: good arguments do not fit its schema: %v", tool.Name, err)
		}
		for name := range inputsOf(t, tool).Properties {
			if !strings.Contains(string(tool.InputSchema), "Also accepted as "+other(name)+".") && other(name) != name {
				t.Errorf("%s: %s hides its other name", tool.Name, name)
			}
		}
	}
	want := strings.Fields(`_codex_local_run _codex_local_exec _codex_local_resume _codex_local_status _codex_local_results _codex_local_wait
		_codex_local_cancel _codex_cloud_submit _codex_cloud_status _codex_cloud_results _codex_cloud_wait _codex_cloud_cancel
		_codex_cloud_list_environments _codex_cloud_github_setup _codex_cleanup_registry`)
	if !slices.Equal(names, want) {
		t.Errorf("tools %q", names)
	}
}

func TestSchemasRefuseDrift(t *testing.T) {
	t.Parallel()
	s := newStage(t, nil)
	a := ask(t, s.tools, "_codex_local_status", `{"format":"json"}`)
	for _, change := range []func(map[string]any){
		func(e map[string]any) { delete(e, "meta") },
		func(e map[string]any) { e["extra"] = 1 },
		func(e map[string]any) { e["status"] = "success" },
		func(e map[string]any) { e["schema_id"] = "codex/v3.6/error/v1" },
		func(e map[string]any) { e["ts"] = "2025-11-18T10:05:22+01:00" },
		func(e map[string]any) { e["ts"] = "2025-11-18T10:05:22.123456Z" },
		func(e map[string]any) { e["error"] = map[string]any{} },
		func(e map[string]any) { delete(e, "data") },
		func(e map[string]any) { e["data"].(map[string]any)["more"] = 1 },
		func(e map[string]any) { e["data"].(map[string]any)["tasks"] = []any{} },
		func(e map[string]any) { e["meta"].(map[string]any)["list"] = []any{} },
		func(e map[string]any) { e["data"].(map[string]any)["summary"].(map[string]any)["running"] = 1 },
	} {
		var e map[string]any
		if err := json.Unmarshal(a.Envelope, &e); err != nil {
			t.Fatal(err)
		}
		change(e)
		if schemaOf(t, "_codex_local_status").Validate(e) == nil {
			t.Errorf("the schema takes %v", e)
		}
	}
}

func FuzzCall(f *testing.F) {
	s := newStage(f, func(c *responder.Config) { c.Environments = os.DevNull })
	list := tools.List()
	for i, tool := range list {
		f.Add(uint8(i), []byte(args(good[tool.Name]...)))
	}
	for _, raw := range hostile {
		if len(raw) < 1000 {
			f.Add(uint8(3), []byte(raw))
		}
	}
	f.Fuzz(func(t *testing.T, n uint8, raw []byte) {
		tool := list[int(n)%len(list)].Name
		if bytes.Contains(raw, []byte(`async`)) || strings.HasSuffix(tool, "_run") {
			tool = "_codex_local_exec" // without a worker a foreground task would never end
		}
		check(t, tool, call(t, s, tool, raw))
	})
}

func call(t *testing.T, s *stage, tool string, raw []byte) v36.Answer {
	a, err := s.tools.Call(t.Context(), tool, raw, func(v36.Progress) {})
	if err != nil {
		t.Fatal(err)
	}
	return a
}
