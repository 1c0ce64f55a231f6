package mcp

import (
	"bytes"
	"cmp"
	"encoding/json"
	"fmt"
	"strings"

	sdk "github.com/modelcontextprotocol/go-sdk/mcp"

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
		title := fmt.Sprintf("%s (%s)", cmp.Or(o.Name, o.ID), strings.ReplaceAll(o.Kind, "_", " "))
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
		var field struct {
			Type, Title, Description, Format string
			MinLength, MaxLength             *int
			Minimum, Maximum                 *float64
			Default                          any
			Enum, EnumNames                  []string
			OneOf                            []struct{ Const, Title string }

			Items              json.RawMessage // of a list of choices
			MinItems, MaxItems *int
		}
		d := json.NewDecoder(bytes.NewReader(raw))
		d.DisallowUnknownFields()
		if d.Decode(&field) != nil {
			return nil
		}
		switch field.Type {
		case "string", "number", "integer", "boolean":
			if field.Items != nil || field.OneOf != nil && revision < titled {
				return nil
			}
		case "array":
			if revision < titled || !listed(field.Items) {
				return nil
			}
		default:
			return nil
		}
		out.Properties[name] = raw
	}
	return out
}

// listed reports whether the items of a list are choices as clients show them: texts, or texts with titles.
func listed(items json.RawMessage) bool {
	var of struct {
		Type  string
		Enum  []string
		AnyOf []struct{ Const, Title string }
	}
	d := json.NewDecoder(bytes.NewReader(items))
	d.DisallowUnknownFields()
	return d.Decode(&of) == nil &&
		(of.Type == "string" && of.Enum != nil && of.AnyOf == nil || of.Type == "" && of.Enum == nil && of.AnyOf != nil)
}
