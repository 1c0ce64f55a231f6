package responder_test

import (
	"errors"
	"testing"

	"github.com/linesman/linesman/api"
	"github.com/linesman/linesman/responder"
	"github.com/linesman/linesman/runs"
)

// A list with a misspelled state is not empty: it is refused.
func TestAStateThatIsNoneIsRefused(t *testing.T) {
	t.Parallel()
	s := responder.New(responder.Config{})
	for state, field := range map[runs.State]string{"canceled": "states", "": "states",
		runs.StateCancelled: "", runs.StateQueued: "", runs.StateInputRequired: ""} {
		_, err := s.Filter(api.List{States: []runs.State{runs.StateWorking, state}})
		var e *api.Error
		if errors.As(err, &e) != (field != "") || e != nil && (e.Code != api.Validation || e.Field != field) {
			t.Errorf("%q: %v", state, err)
		}
	}
}
