package sessionlog

import (
	"bytes"
	"errors"
	"strings"
	"testing"

	"github.com/linesman/linesman/agent"
)

func TestOriginIsFoundBehindLongLines(t *testing.T) {
	t.Parallel()
	logs := agent.Sessions{Origin: func(line []byte) (o agent.Origin, known bool) {
		session, known := bytes.CutPrefix(bytes.TrimSpace(line), []byte("session "))
		return agent.Origin{Session: string(session)}, known
	}}
	long := strings.Repeat("x", 5<<20)
	for _, c := range []struct{ name, log, session string }{
		{"the first line", "session a\n", "a"},
		{"after a line of 5 MiB", long + "\nsession a\n", "a"},
		{"after several", strings.Repeat(long+"\n", 3) + "more\nsession a\n", "a"},
		{"a line of 3 MiB", "session " + long[:3<<20] + "\n", long[:3<<20]},
		{"after too much else", strings.Repeat("x\n", maxHead/2) + "session a\n", ""},
		{"after too many long lines", strings.Repeat(long+"\n", MaxBytes/len(long)+1) + "session a\n", ""},
		{"not yet", "more\n", "not told yet"},
		{"not yet, and the first line is long", long, "not told yet"},
		{"not yet, after a long line", long + "\nsession a", "not told yet"},
	} {
		o, err := Origin(logs, strings.NewReader(c.log))
		untold := c.session == "not told yet"
		if errors.Is(err, ErrUntold) != untold || err != nil && !untold || !untold && o.Session != c.session {
			t.Errorf("%s: session %.20q, error %v", c.name, o.Session, err)
		}
	}
}
