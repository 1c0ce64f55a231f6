package openapi

import (
	"bytes"
	"os"
	"regexp"
	"testing"
)

// TestGeneratedFilesAreThoseOfTheCode compares the document, and the types of the page, with the code.
// UPDATE_DOCS=1 writes them.
func TestGeneratedFilesAreThoseOfTheCode(t *testing.T) {
	t.Chdir("../..")
	document, err := Document()
	if err != nil {
		t.Fatal(err)
	}
	types, err := TypeScript(document)
	if err != nil {
		t.Fatal(err)
	}
	for file, want := range map[string][]byte{"responder/rest/openapi.json": document, "web/src/lib/schema.ts": types} {
		if os.Getenv("UPDATE_DOCS") != "" {
			if err := os.WriteFile(file, want, 0o644); err != nil {
				t.Fatal(err)
			}
		}
		if got, err := os.ReadFile(file); err != nil || !bytes.Equal(got, want) {
			t.Errorf("%s is not that of the code (%v): UPDATE_DOCS=1 go test ./test/openapi", file, err)
		}
	}
}

// A comment that is published says nothing in words of Go.
func TestDescriptionsAreForReadersOfJSON(t *testing.T) {
	document, err := os.ReadFile("../../responder/rest/openapi.json")
	if err != nil {
		t.Fatal(err)
	}
	ofGo := regexp.MustCompile(`"description": ".*(\b[Nn]il\b|\[[A-Z]|\\"\\"|\bMax[A-Z]).*"`)
	for _, found := range ofGo.FindAll(document, -1) {
		t.Errorf("%s", found)
	}
}
