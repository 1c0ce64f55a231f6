package responder

import (
	"github.com/tidwall/gjson"

	"github.com/linesman/linesman/runs"
)

// readable returns the schema of a form with what people read of it visible. What an answer has to have is as the agent
// wrote it: values, and names of fields. Members keep their order.
func readable(schema gjson.Result) []byte { return reveal(nil, schema, false) }

// reveal appends a schema, or an object of schemas by names.
func reveal(out []byte, v gjson.Result, names bool) []byte {
	first := true
	next := func() {
		if !first {
			out = append(out, ',')
		}
		first = false
	}
	switch {
	case v.IsObject():
		out = append(out, '{')
		v.ForEach(func(key, one gjson.Result) bool {
			next()
			out = append(append(out, key.Raw...), ':')
			switch name := key.String(); {
			case names:
				out = reveal(out, one, false)
			case name == "title", name == "description", name == "enumNames":
				out = revealTexts(out, one)
			case name == "const", name == "enum", name == "default", name == "required":
				out = append(out, one.Raw...)
			default:
				out = reveal(out, one, name == "properties" || name == "patternProperties")
			}
			return true
		})
		return append(out, '}')
	case v.IsArray():
		out = append(out, '[')
		v.ForEach(func(_, one gjson.Result) bool {
			next()
			out = reveal(out, one, false)
			return true
		})
		return append(out, ']')
	}
	return append(out, v.Raw...)
}

// revealTexts appends a text, or a list of texts.
func revealTexts(out []byte, v gjson.Result) []byte {
	switch {
	case v.Type == gjson.String:
		return append(out, runs.Encode(visible(v.String()))...)
	case !v.IsArray():
		return append(out, v.Raw...)
	}
	out = append(out, '[')
	for i, one := range v.Array() {
		if i > 0 {
			out = append(out, ',')
		}
		out = revealTexts(out, one)
	}
	return append(out, ']')
}
