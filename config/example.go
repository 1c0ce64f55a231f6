package config

import (
	"fmt"
	"strings"
)

// Example is a TOML file that sets everything to its default and says what it
// means. [Load] reads it as [Default].
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
		if t, rest, dotted := strings.Cut(s.Key, "."); dotted {
			if t != table {
				table = t
				fmt.Fprintf(&b, "\n[%s]\n", table)
			}
			name = rest
		}
		value := s.Value()
		if _, number := s.target.(*int); !number {
			value = `"` + value + `"` // no default has anything to escape
		}
		fmt.Fprintf(&b, "\n# %s\n# %s\n%s = %s\n", s.Help, s.Env(), name, value)
	}
	return b.String()
}
