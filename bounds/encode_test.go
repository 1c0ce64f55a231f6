package bounds

import "testing"

func TestEncodedSizeIsMeasuredSize(t *testing.T) {
	for _, s := range []string{"", "<&>", "\u2028\u2029", "\x00\x1f\x7f", "é👩‍💻", "\"\\/"} {
		b, err := Encode(s)
		if err != nil || len(b) != StringSize(s) {
			t.Errorf("Encode(%q): %d bytes, %v; measured %d", s, len(b), err, StringSize(s))
		}
	}
	if _, err := Encode(func() {}); err == nil {
		t.Error("a function was encoded")
	}
}
