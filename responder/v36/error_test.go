package v36

import (
	"testing"

	"github.com/linesman/linesman/api"
)

func TestEveryCodeIsMapped(t *testing.T) {
	for _, code := range api.Codes {
		if codes[code].code == "" {
			t.Errorf("%s is not mapped", code)
		}
	}
	if len(codes) != len(api.Codes) {
		t.Errorf("%d codes are mapped, of %d", len(codes), len(api.Codes))
	}
}
