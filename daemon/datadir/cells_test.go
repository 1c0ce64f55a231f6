package datadir

import (
	"errors"
	"path/filepath"
	"slices"
	"testing"

	"github.com/linesman/linesman/bus/embedded"
	"github.com/linesman/linesman/config"
)

func TestServerConfigOfCellsHasKeysForEach(t *testing.T) {
	t.Parallel()
	c := config.Default()
	c.Cells = config.List{"alpha", "beta"}
	for _, signed := range []bool{true, false} {
		dir := filepath.Join(t.TempDir(), "keys")
		if _, err := (&Dialer{Config: c}).ServerConfig(dir, signed); err != nil {
			t.Fatal(err)
		}
		for _, cell := range c.Cells {
			if got, want := usersIn(filepath.Join(dir, cell)), allUsers(); !slices.Equal(got, want) {
				t.Errorf("cell %s has keys of %q, want %q", cell, got, want)
			}
		}
		both := []string{embedded.OperatorUser, embedded.SubscriberUser}
		if got := usersIn(dir); !slices.Equal(slices.Sorted(slices.Values(got)), both) {
			t.Errorf("for all cells there are keys of %q, want %q", got, both)
		}
	}
}

func TestCellsOfOneNameAreWrongSettings(t *testing.T) {
	t.Parallel()
	c := config.Default()
	c.Cells = config.List{"alpha", "alpha"}
	if _, err := (&Dialer{Config: c}).ServerConfig("", false); !errors.Is(err, ErrSettings) {
		t.Errorf("two cells of one name: %v", err)
	}
}
