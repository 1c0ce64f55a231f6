package webhook

import (
	"testing"

	"github.com/linesman/linesman/internal/delivery"
)

func TestOutcomesOfAttempts(t *testing.T) {
	t.Parallel()
	for _, test := range []struct {
		got  *delivery.Refusal
		want Outcome
	}{
		{refusal(204), delivered}, {refusal(500), failed}, {&delivery.Refusal{Why: "no answer"}, failed},
		{refusal(429), failed}, {refusal(410), givenUp}, {refusal(302), givenUp},
		{&delivery.Refusal{Why: "bad URL", Final: true}, givenUp},
	} {
		if is := outcomeOf(test.got); is != test.want {
			t.Errorf("%+v is %s, want %s", test.got, is, test.want)
		}
	}
}
