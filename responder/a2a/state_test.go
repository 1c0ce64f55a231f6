package a2a

import (
	"encoding/json"
	"reflect"
	"slices"
	"strings"
	"testing"

	sdk "github.com/a2aproject/a2a-go/v2/a2a"

	"github.com/linesman/linesman/responder/request"
	"github.com/linesman/linesman/runs"
)

func TestEveryStateHasItsName(t *testing.T) {
	for state, want := range map[runs.State]sdk.TaskState{
		runs.StateQueued:        sdk.TaskStateSubmitted,
		runs.StateWorking:       sdk.TaskStateWorking,
		runs.StateInputRequired: sdk.TaskStateInputRequired,
		runs.StateCompleted:     sdk.TaskStateCompleted,
		runs.StateFailed:        sdk.TaskStateFailed,
		runs.StateTimeout:       sdk.TaskStateFailed,
		runs.StateCancelled:     sdk.TaskStateCanceled,
		"of a later version":    sdk.TaskStateUnspecified,
	} {
		if got := stateOf(state); got != want || got.Terminal() != state.Final() {
			t.Errorf("%s: %s, want %s, which ends when the run does", state, got, want)
		}
	}
}

func TestAListOfAStateHasTheRunsThatShowIt(t *testing.T) {
	for _, state := range []runs.State{
		runs.StateQueued, runs.StateWorking, runs.StateInputRequired, runs.StateCompleted, runs.StateFailed,
		runs.StateTimeout,
		runs.StateCancelled,
	} {
		if !slices.Contains(shownAs(stateOf(state)), state) {
			t.Errorf("a list of %s lacks runs that are %s", stateOf(state), state)
		}
	}
	for _, shown := range states {
		for _, state := range shownAs(shown) {
			if got := stateOf(state); got != shown {
				t.Errorf("a list of %s has runs that are %s", shown, got)
			}
		}
	}
}

func TestOutputIsTakenOutAndNothingElse(t *testing.T) {
	for body, want := range map[string]string{
		`{}`:                                   `{}`,
		`{"a":1,"output":{"x":[1]},"b":"<é>"}`: `{"a":1,"b":"<é>"}`,
		`{"output":1}`:                         `{}`,
		`{"events":1,"metadata":{"output":2,"error_context":{"partial_results":{"last_output":"x"},"c":3}}}`: `{"metadata":{"output":2,"error_context":{"c":3}}}`,
		`{"metadata":{"error_context":null}}`:                            `{"metadata":{"error_context":null}}`,
		`{"n":12345678901234567890.10,"partial_results":1,"s":"\u0000"}`: `{"n":12345678901234567890.10,"partial_results":1,"s":"\u0000"}`,
	} {
		data, err := object([]byte(body), nil)
		if err != nil {
			t.Fatal(err)
		}
		var rest map[string]any
		d := json.NewDecoder(strings.NewReader(want))
		d.UseNumber()
		if err := d.Decode(&rest); err != nil || !reflect.DeepEqual(data, rest) {
			t.Errorf("%s: %v, want %s (%v)", body, data, want, err)
		}
	}
}

func TestAnyMessageIDMakesAKey(t *testing.T) {
	for id, same := range map[string]bool{"0193a0f0-7d7e-7b1e-9d5b-1f2f3a4b5c6d": true, "short": false,
		"with spaces in its words": false, "ünïcödé-ünïcödé-ünïcödé": false} {
		if key := keyOf(id); (key == id) != same || !request.KeyForm().MatchString(key) || keyOf(id+"x") == key {
			t.Errorf("%q: key %q", id, key)
		}
	}
}

func TestProgressOfATaskIsThatOfItsPlan(t *testing.T) {
	for _, c := range []struct {
		row  runs.Header
		want string
	}{
		{runs.Header{Summary: runs.Summary{Activity: "Go"}, Steps: &runs.Progress{Percent: 50, Total: 1}}, `{"current_activity":"Go"}`},
		{runs.Header{Summary: runs.Summary{Progress: &runs.Todo{Done: 1, Total: 3}}},
			`{"progress":{"completed_steps":1,"current_activity":null,"total_steps":3}}`},
		{runs.Header{Summary: runs.Summary{Progress: &runs.Todo{Total: 3}, Activity: "Go"}},
			`{"progress":{"completed_steps":0,"current_activity":"Go","total_steps":3},"current_activity":"Go"}`},
	} {
		c.row.State = runs.StateWorking
		if got := string(interim(c.row)); got != c.want {
			t.Errorf("got %s, want %s", got, c.want)
		}
	}
}
