package mcp

import (
	"bytes"
	"cmp"
	"encoding/json"
	"slices"
	"strings"

	sdk "github.com/modelcontextprotocol/go-sdk/mcp"
	"github.com/tidwall/gjson"

	"github.com/linesman/linesman/api"
	"github.com/linesman/linesman/responder"
)

// titled is the first revision whose enums have titles in `oneOf`, and with lists of choices.
const titled = "2025-11-25"

// choice is the field with the answer to a permission: the id of an option.
const choice = "answer"

// form returns how the user of a client is asked a question; nil: it is not shown in full, has no answers to choose
// from, or its form is not one that clients show.
func form(q api.Question, revision string) *sdk.ElicitParams {
	schema := any(nil)
	switch {
	case q.Cut || q.Digest == "":
		return nil
	case q.Kind == api.KindPermission && len(q.Options) > 0:
		schema = choices(q.Options, revision)
	case q.Kind == api.KindForm:
		if schema = flat(q.Fields, revision); schema == nil {
			return nil
		}
	default:
		return nil
	}
	return &sdk.ElicitParams{Message: responder.QuestionText(&q), RequestedSchema: schema}
}

// schemaOf is a JSON Schema that clients show.
type schemaOf struct {
	Type       string         `json:"type"`
	Properties map[string]any `json:"properties"`
	Required   []string       `json:"required,omitempty"`
}

// choices is the schema of the answer to a permission.
func choices(options []api.QuestionOption, revision string) schemaOf {
	field := map[string]any{"type": "string", "title": "Answer"}
	var ids, titles []string
	var both []any
	for _, o := range options {
		kind := responder.OneLine(strings.ReplaceAll(o.Kind, "_", " "))
		title := responder.OneLine(cmp.Or(o.Name, o.ID)) + " (" + kind + ")"
		ids, titles = append(ids, o.ID), append(titles, title)
		both = append(both, map[string]string{"const": o.ID, "title": title})
	}
	if revision >= titled {
		field["oneOf"] = both
	} else {
		field["enum"], field["enumNames"] = ids, titles
	}
	return schemaOf{"object", map[string]any{choice: field}, []string{choice}}
}

// field is a field of a form, with all that clients show of one.
type field struct {
	Type        string   `json:"type"`
	Title       string   `json:"title,omitzero"`
	Description string   `json:"description,omitzero"`
	Format      string   `json:"format,omitzero"`
	MinLength   *int     `json:"minLength,omitzero"`
	MaxLength   *int     `json:"maxLength,omitzero"`
	Minimum     *float64 `json:"minimum,omitzero"`
	Maximum     *float64 `json:"maximum,omitzero"`
	Default     any      `json:"default,omitzero"`
	Enum        []string `json:"enum,omitzero"`
	EnumNames   []string `json:"enumNames,omitzero"`
	OneOf       []value  `json:"oneOf,omitzero"`
	Items       *items   `json:"items,omitzero"` // of a list of choices
	MinItems    *int     `json:"minItems,omitzero"`
	MaxItems    *int     `json:"maxItems,omitzero"`
	Meta        meta     `json:"_meta,omitzero"`
}

// items are the choices of a list: texts, or texts with titles.
type items struct {
	Type  string   `json:"type,omitzero"`
	Enum  []string `json:"enum,omitzero"`
	AnyOf []value  `json:"anyOf,omitzero"`
	Meta  meta     `json:"_meta,omitzero"`
}

// value is a choice with a title. Clients know no description of one.
type value struct {
	Const       string `json:"const"`
	Title       string `json:"title"`
	Description string `json:"description,omitzero"`
	Meta        meta   `json:"_meta,omitzero"`
}

// meta is what agents add for their own clients. It is not sent.
type meta struct{ secret bool }

func (m *meta) UnmarshalJSON(b []byte) error {
	*m = meta{gjson.GetBytes(b, "codex.isSecret").Bool()}
	return nil
}

func (meta) IsZero() bool { return true }

// flat returns the schema of a form, if all of its fields are such as clients show; else nil.
func flat(fields json.RawMessage, revision string) any {
	var in struct {
		Type       string
		Properties map[string]json.RawMessage
		Required   []string
	}
	if json.Unmarshal(fields, &in) != nil || in.Type != "object" || len(in.Properties) == 0 {
		return nil
	}
	out := schemaOf{in.Type, map[string]any{}, in.Required}
	for name, raw := range in.Properties {
		var f field
		d := json.NewDecoder(bytes.NewReader(raw))
		d.DisallowUnknownFields()
		if d.Decode(&f) != nil || !f.isShown(revision) {
			return nil
		}
		f.name(name)
		out.Properties[name] = f
	}
	return out
}

// formats are those that clients know; "": none.
var formats = []string{"", "email", "uri", "date", "date-time"}

// isShown reports whether clients show a field. MCP forbids to ask for secrets by a form.
func (f *field) isShown(revision string) bool {
	if f.Meta.secret || !slices.Contains(formats, f.Format) {
		return false
	}
	switch f.Type {
	case "string", "number", "integer", "boolean":
		return f.Items == nil && (f.OneOf == nil || revision >= titled)
	case "array":
		i := f.Items
		return revision >= titled && i != nil &&
			(i.Type == "string" && i.Enum != nil && i.AnyOf == nil || i.Type == "" && i.Enum == nil && i.AnyOf != nil)
	}
	return false
}

// name gives titles to what has none: to the field, and to values that are not seen as they are.
func (f *field) name(name string) {
	f.Title = cmp.Or(f.Title, responder.OneLine(name))
	entitle(f.OneOf)
	if f.EnumNames == nil && unseen(f.Enum) {
		for _, v := range f.Enum {
			f.EnumNames = append(f.EnumNames, responder.OneLine(v))
		}
	}
	if f.Items == nil {
		return
	}
	if unseen(f.Items.Enum) {
		for _, v := range f.Items.Enum {
			f.Items.AnyOf = append(f.Items.AnyOf, value{Const: v})
		}
		f.Items.Type, f.Items.Enum = "", nil
	}
	entitle(f.Items.AnyOf)
}

func entitle(values []value) {
	for i := range values {
		v := &values[i]
		v.Title = cmp.Or(v.Title, responder.OneLine(v.Const))
		if v.Description != "" {
			v.Title, v.Description = v.Title+" — "+v.Description, ""
		}
	}
}

func unseen(values []string) bool {
	return slices.ContainsFunc(values, func(v string) bool { return v != responder.OneLine(v) })
}
