package chaos

import (
	"errors"
	"flag"
	"fmt"
	"hash/fnv"
	"maps"
	"math/rand/v2"
	"os"
	"path/filepath"
	"slices"
	"strconv"
	"testing"
	"time"

	"github.com/linesman/linesman/test/fixture"
)

// The programs under test, built once.
var (
	program string // linesman
	agent   string // the program in ./agent
)

var (
	rounds = flag.Uint64("chaos.rounds", environ("CHAOS_ROUNDS", 0), "kills in each siege test; 0: a few")
	seed   = flag.Uint64("chaos.seed", environ("CHAOS_SEED", 0),
		"what all schedules are drawn from; 0: another one each time")
)

func environ(name string, standard uint64) uint64 {
	n, err := strconv.ParseUint(os.Getenv(name), 10, 64)
	if err != nil {
		return standard
	}
	return n
}

func TestMain(m *testing.M) {
	fixture.RunGuard()
	_ = os.Setenv("LINESMAN_BACKGROUND_START", "false") // a server that is away stays away
	flag.Parse()
	if !fixture.Extended() {
		os.Exit(fixture.SkipAll(m, "sieges, outages and full disks take minutes"))
	}
	if parallel := flag.Lookup("test.parallel"); parallel.Value.String() == parallel.DefValue {
		_ = parallel.Value.Set("4") // they wait more than they work
	}
	if *seed == 0 {
		*seed = rand.Uint64N(1e9) + 1
	}
	fmt.Printf("chaos: seed %d; the same schedules again: go test ./test/chaos -chaos.seed=%d -chaos.rounds=%d\n", *seed,
		*seed, *rounds)
	os.Exit(run(m))
}

func run(m *testing.M) int {
	dir, err := os.MkdirTemp("", "linesman-chaos-")
	if err != nil {
		panic(err)
	}
	program, agent = filepath.Join(dir, "linesman"), filepath.Join(dir, "agent")
	builds := map[string]string{program: "./cmd/linesman", agent: "./test/chaos/agent"}
	elsewhere := func(to *string, variable string) {
		if built := os.Getenv(variable); built != "" {
			delete(builds, *to)
			*to = built
		}
	}
	elsewhere(&program, "CHAOS_PROGRAM") // another build of linesman is to be tried
	elsewhere(&agent, "CHAOS_AGENT")
	// All that tests make is below dir, so the guard knows it as theirs.
	kept := filepath.Join(dir, "tests")
	watch, err := fixture.StartGuard(dir, program, agent)
	if err == nil {
		err = errors.Join(os.Mkdir(kept, 0o700), os.Setenv("TMPDIR", kept))
	}
	if err != nil {
		panic(err)
	}
	defer func() {
		if err := watch.Stop(); err != nil {
			fmt.Fprintln(os.Stderr, err)
		}
	}()
	if err := fixture.Build(dir, slices.Collect(maps.Values(builds))...); err != nil {
		fmt.Fprintln(os.Stderr, err)
		return 1
	}
	return m.Run()
}

// drawn is where a test draws its choices from: the printed seed and its name.
func drawn(t *testing.T, n uint64) *rand.Rand {
	h := fnv.New64a()
	_, _ = h.Write([]byte(t.Name())) // never fails
	return rand.New(rand.NewPCG(*seed+n, h.Sum64()))
}

// patience is for what takes a moment, on a machine that has others to serve.
// A task in the hands of a worker that is killed is given out again after 30 s,
// and a submission that failed halfway is ended after two minutes at most.
const patience = 150 * time.Second

// eventually waits until a condition holds. After the patience it fails with
// what the condition said last, and with what else is to be known then.
func eventually(t *testing.T, what string, holds func() (bool, string), more ...func() string) {
	t.Helper()
	const long = 20 * time.Second
	began, told, why := time.Now(), false, ""
	if !fixture.Poll(patience, func() (ok bool) {
		if ok, why = holds(); !ok && !told && time.Since(began) > long {
			told = true
			t.Logf("waiting for %v: %s: %.200s", long, what, why)
		}
		return ok
	}) {
		for _, tell := range more {
			t.Log(tell())
		}
		t.Fatalf("%s after %v: %s", what, patience, why)
	}
}
