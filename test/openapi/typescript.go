package openapi

import (
	"encoding/json"
	"fmt"
	"maps"
	"slices"
	"strings"
)

// shape is what the types of TypeScript need of a schema.
type shape struct {
	Ref         string            `json:"$ref"`
	Type        string            `json:"type"`
	Description string            `json:"description"`
	Enum        []string          `json:"enum"`
	Items       *shape            `json:"items"`
	Properties  map[string]*shape `json:"properties"`
	Required    []string          `json:"required"`
	Others      json.RawMessage   `json:"additionalProperties"` // a shape, or false
}

// TypeScript returns the schemas of a document as types for the page, but the envelope of AdCP, which it does
// not read.
func TypeScript(document []byte) ([]byte, error) {
	var d struct {
		Components struct{ Schemas map[string]*shape }
	}
	if err := json.Unmarshal(document, &d); err != nil {
		return nil, err
	}
	var b strings.Builder
	b.WriteString("// Generated from openapi.json: UPDATE_DOCS=1 go test ./test/openapi\n")
	all := d.Components.Schemas
	delete(all, "AdcpEnvelope")
	for _, name := range slices.Sorted(maps.Keys(all)) {
		s := all[name]
		b.WriteString("\n")
		s.comment(&b, "")
		if len(s.Properties) == 0 {
			fmt.Fprintf(&b, "export type %s = %s;\n", name, s.typescript())
			continue
		}
		fmt.Fprintf(&b, "export interface %s {\n", name)
		for _, field := range slices.Sorted(maps.Keys(s.Properties)) {
			s.Properties[field].comment(&b, "  ")
			optional := "?"
			if slices.Contains(s.Required, field) {
				optional = ""
			}
			fmt.Fprintf(&b, "  %s%s: %s;\n", field, optional, s.Properties[field].typescript())
		}
		b.WriteString("}\n")
	}
	return []byte(b.String()), nil
}

func (s *shape) comment(b *strings.Builder, indent string) {
	if s.Description != "" {
		fmt.Fprintf(b, "%s/** %s */\n", indent, strings.ReplaceAll(s.Description, "*/", "* /"))
	}
}

func (s *shape) typescript() string {
	switch {
	case s.Ref != "":
		return s.Ref[strings.LastIndexByte(s.Ref, '/')+1:]
	case len(s.Enum) > 0:
		return "'" + strings.Join(s.Enum, "' | '") + "'"
	}
	switch s.Type {
	case "array":
		return "Array<" + s.Items.typescript() + ">"
	case "object":
		var others shape
		if json.Unmarshal(s.Others, &others) != nil || others.Type == "" && others.Ref == "" {
			return "Record<string, unknown>"
		}
		return "Record<string, " + others.typescript() + ">"
	case "integer":
		return "number"
	}
	return s.Type
}
