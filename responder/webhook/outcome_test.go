package webhook

import "testing"

func TestOutcomesOfAttempts(t *testing.T) {
	t.Parallel()
	for _, test := range []struct {
		got  *Refusal
		want Outcome
	}{
		{refusal(204), delivered}, {refusal(500), failed}, {&Refusal{Why: "no answer"}, failed},
		{refusal(429), failed}, {refusal(410), givenUp}, {refusal(302), givenUp},
		{&Refusal{Why: "bad URL", Final: true}, givenUp},
	} {
		if is := test.got.outcome(); is != test.want {
			t.Errorf("%+v is %s, want %s", test.got, is, test.want)
		}
	}
}
