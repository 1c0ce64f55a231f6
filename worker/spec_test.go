package worker

import (
	"errors"
	"os"
	"path/filepath"
	"testing"
)

// FuzzRunDirectory opens a directory with arbitrary files: it can be driven,
// or is refused.
func FuzzRunDirectory(f *testing.F) {
	f.Add([]byte(`{"run":"r","agent":"codex","source":"run","argv":["true"],"dir":"/"}`),
		[]byte(`{"reason":"exited","code":0}`), []byte("x"))
	f.Add([]byte(`{"run":"../r","agent":"codex","source":"run"}`), []byte(`{"reason":""}`), []byte{})
	f.Add([]byte(`{"run":"r","agent":"a.*","source":"tail","file":{}}`), []byte(`null`), []byte("{}"))
	f.Add([]byte{0xff}, []byte{0xff}, []byte{0xff})
	f.Fuzz(func(t *testing.T, spec, exit, mark []byte) {
		dir := filepath.Join(t.TempDir(), "r")
		if err := os.Mkdir(dir, 0o700); err != nil {
			t.Fatal(err)
		}
		for name, body := range map[string][]byte{specFile: spec, exitFile: exit, markFile: mark, ownerFile: nil} {
			if err := os.WriteFile(filepath.Join(dir, name), body, 0o600); err != nil {
				t.Fatal(err)
			}
		}
		if x, err := readExit(dir); err == nil && (x == nil || x.Reason == "") {
			t.Errorf("an exit without a reason: %+v", x)
		}
		d, err := open(dir)
		if err != nil {
			if !errors.Is(err, errBad) {
				t.Errorf("refused with %v", err)
			}
			return
		}
		defer d.Close()
		if d.Spec.Run != "r" || d.Spec.check() != nil {
			t.Errorf("opened with %+v", d.Spec)
		}
	})
}
