// Package cells tests several installations on one NATS cluster, and one subscriber to the
// events of all of them: docs/scale.md. The test takes its configuration from that page.
package cells

import (
	"flag"
	"os"
	"path/filepath"
	"strconv"
	"testing"

	"github.com/linesman/linesman/test/fixture"
)

var rounds = flag.Int("cells.rounds", 1, "rounds of faults")

// The programs under test.
var program, agent, natsServer string

func TestMain(m *testing.M) {
	if n, err := strconv.Atoi(os.Getenv("CELLS_ROUNDS")); err == nil {
		*rounds = n
	}
	os.Exit(fixture.Main(m, "elections of a cluster take seconds", func(dir string) error {
		program, agent, natsServer = filepath.Join(dir, "linesman"), filepath.Join(dir, "agent"),
			filepath.Join(dir, "nats-server")
		return fixture.Build(dir, "./cmd/linesman", "./test/chaos/agent", "github.com/nats-io/nats-server/v2")
	}))
}
