package openapi

import (
	"bytes"
	"os"
	"regexp"
	"testing"
)

// TestDocumentIsThatOfTheCode compares the document with the code. UPDATE_DOCS=1 writes it.
func TestDocumentIsThatOfTheCode(t *testing.T) {
	t.Chdir("../..")
	const file = "responder/rest/openapi.json"
	want, err := Document()
	if err != nil {
		t.Fatal(err)
	}
	if os.Getenv("UPDATE_DOCS") != "" {
		if err := os.WriteFile(file, want, 0o644); err != nil {
			t.Fatal(err)
		}
	}
	got, err := os.ReadFile(file)
	if err != nil {
		t.Fatal(err)
	}
	if !bytes.Equal(got, want) {
		t.Errorf("%s is not that of the code: UPDATE_DOCS=1 go test ./test/openapi", file)
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
