package webhook

import (
	"encoding/json"
	"errors"
	"os"
	"path/filepath"
	"testing"

	"github.com/linesman/linesman/test/fixture/adcptest"
)

type vectors struct {
	Secret  string
	Vectors []struct {
		ID        string
		Timestamp int64
		Body      string `json:"raw_body"`
		Signature string `json:"expected_signature"`
		Action    string `json:"expected_verifier_action"`
	}
	Secrets []struct{ Secret, Description string } `json:"secret_rejection_vectors"`
	Signer  struct {
		Rejected []struct {
			ID   string
			Body string `json:"signer_input_body"`
		} `json:"rejection_vectors"`
		Signed []struct {
			ID   string
			Body string `json:"signer_input_body"`
		} `json:"positive_vectors"`
	} `json:"signer_side"`
}

func TestSignatureVectors(t *testing.T) {
	raw, err := os.ReadFile(filepath.Join(adcptest.Root(t), "..", "test-vectors", "webhook-hmac-sha256.json"))
	if err != nil {
		t.Fatal(err)
	}
	var v vectors
	if err := json.Unmarshal(raw, &v); err != nil {
		t.Fatal(err)
	}
	if len(v.Vectors) < 15 || len(v.Secrets) < 4 || len(v.Signer.Rejected) < 4 || len(v.Signer.Signed) < 1 {
		t.Fatalf("%d, %d, %d and %d vectors", len(v.Vectors), len(v.Secrets), len(v.Signer.Rejected), len(v.Signer.Signed))
	}
	for _, one := range v.Vectors {
		got, err := sign(v.Secret, one.Timestamp, []byte(one.Body))
		if one.Action == "reject-malformed" {
			if got != "" || err == nil {
				t.Errorf("%s: %q, %v", one.ID, got, err)
			}
		} else if got != one.Signature || err != nil {
			t.Errorf("%s: %q, want %q, %v", one.ID, got, one.Signature, err)
		}
	}
	for _, one := range v.Secrets {
		if got, err := sign(one.Secret, 1, []byte("{}")); got != "" || err == nil {
			t.Errorf("%s: it signs", one.Description)
		}
	}
	for _, one := range v.Signer.Rejected {
		if got, err := sign(v.Secret, 1, []byte(one.Body)); got != "" || err == nil {
			t.Errorf("%s: %q, %v", one.ID, got, err)
		}
	}
	for _, one := range v.Signer.Signed {
		if got, err := sign(v.Secret, 1, []byte(one.Body)); got == "" || err != nil {
			t.Errorf("%s: %v", one.ID, err)
		}
	}
}

func TestDuplicateNamesAreFound(t *testing.T) {
	for body, twice := range map[string]bool{
		`{"a":1,"a":2}`: true, `{"a":{"b":1,"b":2}}`: true, `[{"a":1,"a":1}]`: true,
		`{"x":[1,[{"k":"k"},{"k":1,"j":"k","k":3}]]}`: true,
		`{"a":1,"\u0061":2}`:                          true,
		`{"a":"a","b":"a"}`:                           false, `{"a":{"a":{"a":1}}}`: false, `[{"a":1},{"a":1}]`: false,
		`{"a":["a","a"],"b":{"a":1}}`: false, `"a"`: false, `{}`: false,
	} {
		if err := checkNames([]byte(body)); errors.Is(err, errNames) != twice || !twice && err != nil {
			t.Errorf("%s: %v", body, err)
		}
	}
	for _, body := range []string{``, `{"a":1`, `{"a":1}}`, `x`} {
		if body == "" {
			continue // the empty input has no names
		}
		if err := checkNames([]byte(body)); err == nil {
			t.Errorf("%s is taken for JSON", body)
		}
	}
}
