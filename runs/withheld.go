package runs

import (
	"strings"

	"github.com/linesman/linesman/internal/lazy"
)

// MaxWithheld is the maximum number of names in a [Withheld].
const MaxWithheld = 4

// Withheld are credentials that the agent of a task would have used and did not get: they are set for
// the worker, and its settings do not pass them.
type Withheld struct {
	Names   []string `json:"names"`   // of environment variables, 1 to MaxWithheld
	Setting string   `json:"setting"` // name of the setting that passes them
}

// String is a sentence about w, for people: which variables, and which setting passes them.
func (w *Withheld) String() string {
	names, last, are := "", w.Names[len(w.Names)-1], " is"
	if n := len(w.Names) - 1; n > 0 {
		names, are = strings.Join(w.Names[:n], ", ")+" and ", " are"
	}
	return names + last + are + " set but" + are + " not passed to tasks: " + w.Setting
}

var (
	withheldName    = lazy.Regexp(`^[A-Z][A-Z0-9_]{0,39}$`)
	withheldSetting = lazy.Regexp(`^agents\.[a-z][a-z0-9_]{0,31}\.env$`)
)

// valid reports whether w has only names, of no other length than those of linesman itself.
func (w *Withheld) valid() bool {
	if len(w.Names) == 0 || len(w.Names) > MaxWithheld || !withheldSetting().MatchString(w.Setting) {
		return false
	}
	for _, name := range w.Names {
		if !withheldName().MatchString(name) {
			return false
		}
	}
	return true
}
