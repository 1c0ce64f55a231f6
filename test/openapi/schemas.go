package openapi

import (
	_ "embed"
	"encoding/json"
	"go/ast"
	"go/parser"
	"go/token"
	"path/filepath"
	"reflect"
	"regexp"
	"slices"
	"strconv"
	"strings"

	"github.com/invopop/jsonschema"

	"github.com/linesman/linesman/api"
	"github.com/linesman/linesman/responder/rest"
	"github.com/linesman/linesman/runs"
)

const module = "github.com/linesman/linesman"

const runID = "^[A-Za-z0-9_-]{1,64}$"

// adcpEnvelope is kept by hand: AdCP defines it.
//
//go:embed adcp.json
var adcpEnvelope json.RawMessage

// names are those of schemas that are not named as their Go type.
var names = map[reflect.Type]string{
	reflect.TypeFor[runs.Summary]():   "RunSummary",
	reflect.TypeFor[api.RunPage]():    "RunList",
	reflect.TypeFor[api.Workers]():    "WorkerList",
	reflect.TypeFor[api.Tokens]():     "EventTokens",
	reflect.TypeFor[runs.Detail]():    "ItemDetail",
	reflect.TypeFor[runs.Excerpted](): "DetailText",
}

// words are those of texts that have no type of their own in Go.
var words = map[string][]string{
	"RunSummary.source": {
		runs.SourceRun, runs.SourceTail, runs.SourceSession, runs.SourcePipe, runs.SourceQueue, "cloud",
		runs.SourceExternal,
	},
	"Event.class": classes, "DetailItem.class": classes,
	"Event.kind":         api.EventKinds,
	"DetailItem.kind":    append(slices.Clip(api.EventKinds), "detail"),
	"FileDetail.kind":    {"added", "modified", "deleted"},
	"DiffFile.kind":      {"added", "modified", "deleted", "renamed", "type"},
	"DetailPage.omitted": {string(api.Expired)},
	"PlanStep.state":     {"pending", "active", "done"},
	"Problem.type":       {"about:blank"},
	"Problem.code": {
		"VALIDATION", "UNAUTHORIZED", "FORBIDDEN", "NOT_FOUND", "METHOD_NOT_ALLOWED", "NOT_ACCEPTABLE", "CONFLICT",
		"TOO_LARGE", "UNSUPPORTED_MEDIA_TYPE", "UNSUPPORTED", "TOOL_ERROR", "TIMEOUT", "INTERNAL", "UNAVAILABLE",
	},
}

var classes = []string{"command", "file_change", "read", "web", "mcp", "agent", "plan", "other"}

// schemas makes schemas of Go types.
type schemas struct {
	jsonschema.Reflector
	made  map[string]any
	words map[string][]any // of types that are texts, by their names with the package
}

func newSchemas() (*schemas, error) {
	s := &schemas{made: map[string]any{"AdcpEnvelope": adcpEnvelope}, words: map[string][]any{}}
	s.Namer = func(t reflect.Type) string { return names[t] }
	s.Mapper = s.mapped
	for _, dir := range []string{"api", "runs", "responder/rest"} {
		if err := s.AddGoComments(module, dir); err != nil {
			return nil, err
		}
		if err := constants(dir, s.words); err != nil {
			return nil, err
		}
	}
	const reason = module + "/api.DiffReason" // or that of a worker
	s.words[reason] = append(s.words[reason], s.words[module+"/runs.NoChanges"]...)
	for name, comment := range s.CommentMap {
		s.CommentMap[name] = sentence(name, comment)
	}
	return s, nil
}

// constants adds the texts of the constants in a folder, by the names of their types.
func constants(dir string, known map[string][]any) error {
	files, err := filepath.Glob(filepath.Join(dir, "*.go"))
	if err != nil {
		return err
	}
	for _, file := range files {
		f, err := parser.ParseFile(token.NewFileSet(), file, nil, 0)
		if err != nil {
			return err
		}
		ast.Inspect(f, func(n ast.Node) bool {
			c, ok := n.(*ast.ValueSpec)
			if !ok || len(c.Values) != 1 {
				return true
			}
			kind, named := c.Type.(*ast.Ident)
			text, is := c.Values[0].(*ast.BasicLit)
			if named && is && text.Kind == token.STRING && text.Value != `""` {
				word, _ := strconv.Unquote(text.Value) // the compiler has read it
				known[module+"/"+dir+"."+kind.Name] = append(known[module+"/"+dir+"."+kind.Name], word)
			}
			return true
		})
	}
	return nil
}

// mapped is the schema of a type that is not what it seems to be in Go; nil for others.
func (s *schemas) mapped(t reflect.Type) *jsonschema.Schema {
	switch t {
	case reflect.TypeFor[runs.Time]():
		return &jsonschema.Schema{Ref: "#/$defs/Time"}
	case reflect.TypeFor[json.RawMessage]():
		return &jsonschema.Schema{Type: "object"}
	case reflect.TypeFor[runs.Labels]():
		return &jsonschema.Schema{Type: "object", AdditionalProperties: &jsonschema.Schema{Type: "string"}}
	case reflect.TypeFor[runs.Reason](): // a worker of another version may tell another one
		return &jsonschema.Schema{Type: "string"}
	}
	if all := s.words[t.PkgPath()+"."+t.Name()]; t.Kind() == reflect.String && len(all) > 0 {
		return &jsonschema.Schema{Type: "string", Enum: all}
	}
	return nil
}

// of adds the schema of an answer, with all that it refers to, and returns a reference.
func (s *schemas) of(t reflect.Type) any {
	if t == nil { // a document of OpenAPI
		return object{"type": "object", "required": []string{"openapi", "paths"}}
	}
	root := s.ReflectFromType(t)
	for name, schema := range root.Definitions {
		s.made[name] = schema
		for at := schema.Properties.Oldest(); at != nil; at = at.Next() {
			complete(at.Key, at.Value)
			path := strings.Replace(name+"."+at.Key, "Run.", "RunSummary.", 1)
			if some := words[path]; len(some) > 0 {
				at.Value.Enum = nil
				for _, word := range some {
					at.Value.Enum = append(at.Value.Enum, word)
				}
			}
		}
	}
	return object{"$ref": root.Ref}
}

// signed are the numbers that may be negative.
var signed = []string{"code", "exitCode", "signal"}

// complete adds what a type of Go does not say: all numbers but a few count something.
func complete(name string, property *jsonschema.Schema) {
	switch {
	case property == nil:
		return
	case (property.Type == "integer" || property.Type == "number") && !slices.Contains(signed, name):
		property.Minimum = "0"
	case property.Type == "string" && slices.Contains([]string{"run", "continues", "continuedBy"}, name):
		property.Pattern = runID
	}
	complete(name, property.Items)
	complete(name, property.AdditionalProperties)
}

// all returns the schemas. A list has the summaries of runs, of which a run has more: what only its record
// has may be absent. Every run has an agent, and every event names its kind.
func (s *schemas) all() map[string]any {
	s.of(reflect.TypeFor[runs.Summary]())
	s.of(reflect.TypeFor[rest.Problem]())
	summary, whole := s.made["RunSummary"].(*jsonschema.Schema), s.made["Run"].(*jsonschema.Schema)
	summary.Required = append(summary.Required, "agent")
	whole.Required = summary.Required
	envelope, _ := s.made["Event"].(*jsonschema.Schema).Properties.Get("event")
	envelope.Required = []string{"agent_kind"}
	list, _ := s.made["RunList"].(*jsonschema.Schema).Properties.Get("runs")
	list.Items = &jsonschema.Schema{Ref: "#/$defs/RunSummary"}
	s.made["Time"] = object{
		"type": "string", "format": "date-time", "description": "RFC 3339 in UTC with milliseconds.",
		"pattern": `^[0-9]{4}-[0-9]{2}-[0-9]{2}T[0-9]{2}:[0-9]{2}:[0-9]{2}\.[0-9]{3}Z$`,
	}
	return s.made
}

// seeAlso refers to another name of Go.
var seeAlso = regexp.MustCompile(`[,;:]? see \[[^\]]+\]`)

// sentence is the comment of a type or a field as a description: "Diff is what a run changed" is "What a run
// changed".
func sentence(name, comment string) string {
	comment = seeAlso.ReplaceAllString(strings.Join(strings.Fields(comment), " "), "")
	name = name[strings.LastIndexByte(name, '/')+1:]
	_, name, _ = strings.Cut(name, ".") // of a field, that of its type, too
	if rest, ok := strings.CutPrefix(comment, name+" "); ok {
		comment = strings.TrimPrefix(strings.TrimPrefix(rest, "is "), "are ")
	}
	if comment == "" {
		return ""
	}
	return strings.ToUpper(comment[:1]) + strings.TrimSuffix(comment[1:], ".") + "."
}
