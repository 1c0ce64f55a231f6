package config

import (
	"fmt"
	"strings"
)

// Example returns a TOML file with the description and the default of every
// setting. [Load] of this file returns [Default].
func Example() string {
	const header = `# Settings of linesman. Flags are stronger than environment variables, those
# are stronger than this file. Sizes are written 512, 64KiB, 8MiB, 1GiB;
# durations 30s, 5m, 72h.
`
	var b strings.Builder
	b.WriteString(header)
	table := ""
	for _, s := range Settings() {
		name := s.Key
		if dot := strings.LastIndexByte(s.Key, '.'); dot >= 0 {
			t, rest := s.Key[:dot], s.Key[dot+1:]
			if t != table {
				table = t
				fmt.Fprintf(&b, "\n[%s]\n", table)
			}
			name = rest
		}
		value := s.Value()
		switch v := s.target.(type) { // no default needs escaping
		case *int, *bool:
		case *List:
			value = "[]"
			if len(*v) > 0 {
				value = `["` + strings.Join(*v, `", "`) + `"]`
			}
		default:
			value = `"` + value + `"`
		}
		fmt.Fprintf(&b, "\n# %s\n# %s\n%s = %s\n", s.Help, s.Env(), name, value)
	}
	return b.String()
}
