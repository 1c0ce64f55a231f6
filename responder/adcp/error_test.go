package adcp

import (
	"testing"

	"github.com/linesman/linesman/api"
)

func TestEveryCodeIsMapped(t *testing.T) {
	for _, code := range api.Codes {
		k, ok := kinds[code]
		if !ok || k.code == "" || k.status == "" {
			t.Errorf("%s is not mapped: %+v", code, k)
		}
		if e := ErrorOf(&api.Error{Code: code}, false); e.Recovery == "" {
			t.Errorf("%s has no recovery", code)
		}
	}
	if len(kinds) != len(api.Codes) {
		t.Errorf("%d codes are mapped, of %d", len(kinds), len(api.Codes))
	}
}
