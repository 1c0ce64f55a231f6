package natsapi

import (
	"testing"

	"github.com/linesman/linesman/api"
	v36 "github.com/linesman/linesman/responder/v36"
)

func TestEveryCodeHasAHeader(t *testing.T) {
	for _, code := range api.Codes {
		if e := v36.ErrorOf(&api.Error{Code: code}); codes[e.Code] == 0 {
			t.Errorf("%s of v3.6 has no code of HTTP", e.Code)
		}
		if status[code] == 0 {
			t.Errorf("%s has no code of HTTP", code)
		}
	}
}
