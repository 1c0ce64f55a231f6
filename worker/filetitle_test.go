package worker

import "testing"

func TestTheTitleOfAFileIsItsName(t *testing.T) {
	t.Parallel()
	for path, want := range map[string]string{
		"/var/log/agent.jsonl": "agent", "/x/run.2.log": "run.2", "/x/plain": "plain", "/x/a\nb.txt": "a",
	} {
		if got := fileTitle(path); got != want {
			t.Errorf("%q: %q, want %q", path, got, want)
		}
	}
}
