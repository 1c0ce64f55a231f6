package request

import (
	"encoding/json"
	"fmt"
	"regexp"
	"slices"
	"strings"
)

// kind is the type of a parameter.
type kind uint8

const (
	text    kind = iota
	choice       // one of some words
	integer      // a JSON number without a fraction
	boolean
	object
	names // an array of strings
)

// Param is one parameter. Its other spelling, camelCase for snake_case and the
// reverse, is an alias.
type Param struct {
	Name     string
	Kind     kind
	Required bool
	About    string // for callers
	Words    []string
	Min      int64                 // of an integer
	Max      int64                 // of an integer; of a text or an object: bytes, 0: no limit; of names: their number
	Chars    int64                 // of a text: characters, instead of bytes
	Lines    bool                  // a text may have several lines
	Any      bool                  // a text may have control characters, as prompts of any surface
	Form     func() *regexp.Regexp // of a text; nil: any
	Rule     string                // Form in words
	Format   string                // of a text, in its schema alone
	Members  []Param               // of an object: it may have no others. None: any
	Unlisted bool                  // is not in the schema: About of another parameter says what it is
	Default  any                   // nil: none
	Unread   bool                  // any value is accepted, and is its raw JSON
	Hidden   bool                  // it is in no schema: the schemas of the v3.6 contract are fixed
}

// Text is a parameter of at most max bytes on one line.
func Text(name string, max int64, about string) Param {
	return Param{Name: name, Kind: text, Max: max, About: about}
}

// RequiredText is Text that every call must have.
func RequiredText(name string, max int64, about string) Param {
	return Param{Name: name, Kind: text, Max: max, About: about, Required: true}
}

// Integer is a whole number from least to most. Otherwise is its default; 0: none.
func Integer(name string, least, most, otherwise int64, about string) Param {
	p := Param{Name: name, Kind: integer, Min: least, Max: most, About: about}
	if otherwise != 0 {
		p.Default = otherwise
	}
	return p
}

// Names are at most max texts, each one of the words if there are any.
func Names(name string, max int64, about string, words ...string) Param {
	return Param{Name: name, Kind: names, Max: max, About: about, Words: words}
}

// Object is a JSON object of at most max bytes.
func Object(name string, max int64, about string) Param {
	return Param{Name: name, Kind: object, Max: max, About: about}
}

// Flag is true or false; false is its default.
func Flag(name, about string) Param {
	return Param{Name: name, Kind: boolean, Default: false, About: about}
}

// Choice is one of some words. Otherwise is its default; "": none.
func Choice(name, otherwise, about string, words ...string) Param {
	p := Param{Name: name, Kind: choice, Words: words, About: about}
	if otherwise != "" {
		p.Default = otherwise
	}
	return p
}

// IsText reports whether the values of the parameter are texts.
func (p *Param) IsText() bool { return p.Kind == text }

// alias returns the other spelling of a name, or "".
func alias(name string) string {
	var b strings.Builder
	upper := false
	for _, c := range name {
		switch {
		case c == '_':
			upper = true
		case 'A' <= c && c <= 'Z':
			b.WriteByte('_')
			b.WriteRune(c + 'a' - 'A')
		case upper:
			b.WriteRune(c + 'A' - 'a')
			upper = false
		default:
			b.WriteRune(c)
		}
	}
	if b.String() == name {
		return ""
	}
	return b.String()
}

// Schema returns the JSON Schema of the parameters. It allows other names, so
// that a host that checks arguments accepts an alias. The call refuses unknown
// names.
func Schema(params []Param) json.RawMessage {
	var known []Param
	for _, p := range params {
		if p.Hidden {
			continue
		}
		if a := alias(p.Name); a != "" {
			p.About += " Also accepted as " + a + "."
		}
		known = append(known, p)
	}
	return schema(`"$schema":"https://json-schema.org/draft/2020-12/schema",`, known, "")
}

// Brief is [Schema] without what few clients need: other spellings, webhooks, the parameters and the answers of AdCP,
// and options of the Universal Agent API. Calls accept them nevertheless.
func Brief(params []Param) json.RawMessage {
	var few []Param
	for _, p := range params {
		if p.Hidden {
			continue
		}
		switch p.Name {
		case KeyParam.Name:
			if p.Form != nil { // that of AdCP
				continue
			}
		case contextParam.Name, contextIDParam.Name, governanceParam.Name, webhookParam.Name, nonInteractiveParam.Name,
			unboxedParam.Name, extensionsParam.Name:
			continue
		case Format:
			p = FormatParam
		}
		few = append(few, p)
	}
	return schema("", few, "")
}

func schema(head string, params []Param, more string) json.RawMessage {
	var b strings.Builder
	b.WriteString("{" + head + `"type":"object","properties":{`)
	var required []string
	params = slices.DeleteFunc(slices.Clone(params), func(p Param) bool { return p.Unlisted })
	for i, p := range params {
		if i > 0 {
			b.WriteByte(',')
		}
		fmt.Fprintf(&b, "%q:%s", p.Name, p.schema())
		if p.Required {
			required = append(required, p.Name)
		}
	}
	b.WriteByte('}')
	if len(required) > 0 {
		fmt.Fprintf(&b, `,"required":%s`, encode(required))
	}
	if more != "" {
		b.WriteString("," + more)
	}
	b.WriteByte('}')
	return json.RawMessage(b.String())
}

func (p *Param) schema() []byte {
	if p.Members != nil {
		return schema("", p.Members, `"description":`+string(encode(p.About))+`,"additionalProperties":false`)
	}
	s := struct {
		Type        string   `json:"type"`
		Description string   `json:"description"`
		Enum        []string `json:"enum,omitempty"`
		Items       any      `json:"items,omitempty"`
		MinLength   int64    `json:"minLength,omitempty"`
		MaxLength   int64    `json:"maxLength,omitempty"`
		Pattern     string   `json:"pattern,omitempty"`
		Format      string   `json:"format,omitempty"`
		Minimum     *int64   `json:"minimum,omitempty"`
		Maximum     *int64   `json:"maximum,omitempty"`
		MaxItems    int64    `json:"maxItems,omitempty"`
		Default     any      `json:"default,omitempty"`
	}{Description: p.About, Enum: p.Words, Format: p.Format, Default: p.Default}
	switch p.Kind {
	case text:
		s.Type, s.MinLength, s.MaxLength = "string", 1, max(p.Max, p.Chars)
		if p.Form != nil {
			s.Pattern = p.Form().String()
		}
	case choice:
		s.Type = "string"
	case integer:
		s.Type, s.Minimum, s.Maximum = "integer", &p.Min, &p.Max
	case boolean:
		s.Type = "boolean"
	case object:
		s.Type = "object"
	case names:
		s.Type, s.MaxItems, s.Enum = "array", p.Max, nil
		s.Items = struct {
			Type string   `json:"type"`
			Enum []string `json:"enum,omitempty"`
		}{"string", p.Words}
	}
	return encode(s)
}

// nearest returns the known name that is most similar to an unknown one, or "".
func nearest(params []Param, name string) string {
	best, at := "", 0
	for _, p := range params {
		for _, known := range []string{p.Name, alias(p.Name)} {
			if known == "" || p.Hidden {
				continue
			}
			n := distance(fold(known), fold(name))
			if n <= max(2, len(known)/3) && (best == "" || n < at) {
				best, at = known, n
			}
		}
	}
	return best
}

// fold maps both spellings of a name to one.
func fold(name string) string { return strings.ToLower(strings.ReplaceAll(name, "_", "")) }

// distance returns how many bytes must change to turn a into b.
func distance(a, b string) int {
	row := make([]int, len(b)+1)
	for j := range row {
		row[j] = j
	}
	for i := range len(a) {
		before := row[0]
		row[0] = i + 1
		for j := range len(b) {
			cost := before
			if a[i] != b[j] {
				cost++
			}
			before = row[j+1]
			row[j+1] = min(cost, row[j]+1, row[j+1]+1)
		}
	}
	return row[len(b)]
}

// plainWord reports whether an error may quote s: it is short, and has only the
// characters of parameter names and words.
func plainWord(s string) bool {
	const most = 40
	return s != "" && len(s) <= most && !strings.ContainsFunc(s, func(c rune) bool {
		return !('a' <= c && c <= 'z' || 'A' <= c && c <= 'Z' || '0' <= c && c <= '9' || c == '_' || c == '-' || c == '.')
	})
}
