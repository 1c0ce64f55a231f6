package console

import (
	"errors"
	"strings"

	"github.com/alecthomas/kong"
)

// Parse reads a command line. The error reports all mistakes at once. The context then has
// what could be read nevertheless, if anything; whole reports that it has all but what the
// mistakes name. It ends once helped is set, which the parser does when it has printed help.
// A parser keeps what it has parsed, so newParser is called for each attempt.
func Parse(
	args []string, newParser func() (*kong.Kong, error), helped *bool,
) (kctx *kong.Context, whole bool, err error) {
	// kong stops at the first mistake. Remove the argument that it names and parse
	// again, to find the next one.
	var mistakes []error
	for {
		k, err := newParser()
		if err != nil {
			return nil, false, err
		}
		kctx, err := k.Parse(args)
		if err == nil || *helped {
			return kctx, err == nil, errors.Join(mistakes...)
		}
		var trace *kong.ParseError
		if !errors.As(err, &trace) {
			return nil, false, errors.Join(append(mistakes, err)...)
		}
		// Some are consequences of another mistake: an argument that was the value of
		// an unknown flag, and a missing command.
		follows := isUnexpected(err) || strings.HasPrefix(err.Error(), "expected one of")
		if len(mistakes) == 0 || !follows {
			mistakes = append(mistakes, closer(err))
		}
		rest := without(args, trace)
		if noCommand := trace.Context.Selected() == nil; len(rest) == len(args) || noCommand && isUnexpected(err) {
			return trace.Context, false, errors.Join(mistakes...)
		}
		args = rest
	}
}
