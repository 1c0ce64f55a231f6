package a2a_test

import (
	"encoding/json"
	"strings"
	"sync"
	"testing"

	"github.com/tidwall/gjson"

	"github.com/linesman/linesman/responder/tools"
)

// Copies of the call of a skill wait for the one that is carried out, and get its answer.
func TestCopiesOfACallStartOneRun(t *testing.T) {
	t.Parallel()
	l := newLab(t)
	all := []*endpoint{l.endpoint(nil), l.endpoint(nil)}
	for _, id := range []string{"copy-1", "copy-2", "copy-3"} {
		var got [8]string
		var copies sync.WaitGroup
		for i := range got {
			copies.Go(func() {
				said := checkCall(t, all[i%2].invoke(skill(id, "codex-run", `{"task":"go"}`)), "TASK_STATE_COMPLETED")
				got[i] = said.Get("status").String() + " " + said.Get("task_id").String()
			})
		}
		copies.Wait()
		for _, one := range got {
			if one != got[0] || !strings.HasPrefix(one, "submitted T-") {
				t.Errorf("%s: %q", id, got)
				break
			}
		}
	}
}

// A message and a call of the tool, as REST makes it, are one request where they
// have one key and ask for the same: whichever comes first, and at whichever
// responder.
func TestAMessageAndACallWithOneKeyStartOneRun(t *testing.T) {
	t.Parallel()
	l := newLab(t)
	first, second := l.endpoint(nil), l.endpoint(nil)
	set := tools.New(second.service)
	var mu sync.Mutex
	started := map[string]int{}
	note := func(id string) {
		mu.Lock()
		defer mu.Unlock()
		started[id]++
	}
	const message = `{"message":{"messageId":"order-4711-attempt","role":"ROLE_USER","parts":[{"text":"go"},{"data":{"workingDir":"/srv/shop","timeoutSec":60}}]},"configuration":{"returnImmediately":true}}`
	const call = `{"timeoutSec":6e1,"workingDir":"/srv/shop","format":"adcp","context":{"a":1},"task":"\u0067o","idempotency_key":"order-4711-attempt"}`
	var all sync.WaitGroup
	for i := range 20 {
		all.Go(func() {
			if i%2 == 0 {
				_, got := first.post("/a2a/v1/message:send", message, "A2A-Version", "1.0")
				note(got.Get("task.id").String())
				return
			}
			for {
				got, err := set.Call(t.Context(), "_codex_local_exec", json.RawMessage(call), nil)
				if err != nil {
					t.Error(err)
					return
				}
				if gjson.GetBytes(got.Envelope, "adcp_error.code").String() == "IDEMPOTENCY_IN_FLIGHT" {
					continue
				}
				note(gjson.GetBytes(got.Envelope, "task_id").String())
				return
			}
		})
	}
	all.Wait()
	for id, n := range started {
		if id == "" || len(started) != 1 || n != 20 {
			t.Errorf("runs %v, want one", started)
		}
	}
}
