// Package adcptest holds what tests say against the schemas of AdCP. Those are
// not part of this repository: they are read at ADCP_SCHEMAS, or beside it.
package adcptest

import (
	"bytes"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"runtime"
	"sync"
	"testing"

	"github.com/santhosh-tekuri/jsonschema/v6"
)

const version = "3.1.0-beta.3"

// Root is the directory of the schemas. The test is skipped where they are not.
func Root(t testing.TB) string {
	t.Helper()
	dir, there := root()
	if !there {
		t.Skip(missing)
	}
	return dir
}

const missing = "the schemas of AdCP are not there: set ADCP_SCHEMAS to their directory"

func root() (dir string, there bool) {
	if dir = os.Getenv("ADCP_SCHEMAS"); dir == "" {
		_, here, _, _ := runtime.Caller(0)
		dir = filepath.Join(filepath.Dir(here), "..", "..", "..", "shared", "schemas", "adcp", version)
	}
	_, err := os.Stat(dir)
	return dir, !errors.Is(err, fs.ErrNotExist)
}

// Envelope checks a response against the schema of the envelope.
func Envelope(t testing.TB, response []byte) {
	t.Helper()
	check(t, "core/protocol-envelope.json", response)
}

// check checks JSON against a schema by its path below [Root]. Where there is
// none it says so, and the rest of the test goes on.
func check(t testing.TB, schema string, body []byte) {
	t.Helper()
	dir, there := root()
	if !there {
		t.Log(missing)
		return
	}
	c, err := compiler(dir)
	if err != nil {
		t.Fatal(err)
	}
	c.Lock()
	s, err := c.Compile(base + schema)
	c.Unlock()
	if err != nil {
		t.Fatal(err)
	}
	v, err := jsonschema.UnmarshalJSON(bytes.NewReader(body))
	if err != nil {
		t.Fatalf("%v: %.2000s", err, body)
	}
	if err := s.Validate(v); err != nil {
		t.Errorf("%s: %v\n%.2000s", schema, err, body)
	}
}

const base = "https://adcp.test/schemas/" + version + "/"

type locked struct {
	sync.Mutex
	*jsonschema.Compiler
}

var (
	once   sync.Once
	shared *locked
	failed error
)

func compiler(root string) (*locked, error) {
	once.Do(func() {
		c := jsonschema.NewCompiler()
		c.AssertFormat()
		failed = filepath.WalkDir(root, func(path string, d fs.DirEntry, err error) error {
			if err != nil || d.IsDir() || filepath.Ext(path) != ".json" {
				return err
			}
			b, err := os.ReadFile(path)
			if err != nil {
				return err
			}
			doc, err := jsonschema.UnmarshalJSON(bytes.NewReader(b))
			if err != nil {
				return fmt.Errorf("%s: %w", path, err)
			}
			rel, err := filepath.Rel(root, path)
			if err != nil {
				return err
			}
			return c.AddResource(base+filepath.ToSlash(rel), doc)
		})
		shared = &locked{Compiler: c}
	})
	return shared, failed
}
