package webhook

import (
	"errors"
	"testing"
)

func TestOutcomesOfAttempts(t *testing.T) {
	t.Parallel()
	for _, test := range []struct {
		got  outcome
		want Outcome
	}{
		{outcome{status: 204}, delivered}, {outcome{status: 500}, Failed}, {outcome{why: "no answer"}, Failed},
		{outcome{status: 429}, Failed}, {outcome{status: 410}, givenUp}, {outcome{status: 302}, givenUp},
		{outcome{err: errors.New("bad URL")}, givenUp},
	} {
		if is := test.got.is(); is != test.want {
			t.Errorf("%+v is %s, want %s", test.got, is, test.want)
		}
	}
}
