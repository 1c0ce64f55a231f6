// Package lazy delays what a process that runs for milliseconds seldom needs.
package lazy

import (
	"regexp"
	"sync"
)

// Regexp returns a function that returns the compiled expression. It compiles it at its first call, and panics then
// if the expression is invalid. The function may be called from several goroutines.
func Regexp(expression string) func() *regexp.Regexp {
	return sync.OnceValue(func() *regexp.Regexp { return regexp.MustCompile(expression) })
}
