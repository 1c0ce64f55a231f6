package a2a

import (
	"errors"
	"testing"

	sdk "github.com/a2aproject/a2a-go/v2/a2a"
	"go.uber.org/zap"

	"github.com/linesman/linesman/api"
)

func TestEveryErrorCodeIsMapped(t *testing.T) {
	h := &handler{log: zap.NewNop()}
	for _, code := range api.Codes {
		if answers[code].kind == nil {
			t.Errorf("%s is no error of A2A", code)
			continue
		}
		err := h.explain("test the webhook", &api.Error{Code: code, Field: "run", Message: "the reason"})
		why := "the reason"
		if code == api.Internal { // which stays inside
			why = "internal error; see linesman's log"
		}
		var got *sdk.Error
		if !errors.As(err, &got) || !errors.Is(got, answers[code].kind) || got.Message != why {
			t.Errorf("%s: %v, want %v", code, err, answers[code].kind)
		}
	}
	if len(answers) != len(api.Codes) {
		t.Errorf("%d codes are mapped, there are %d", len(answers), len(api.Codes))
	}
}
