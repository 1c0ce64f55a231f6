package main

import (
	"bytes"
	"testing"
)

// A path is one line of what is printed, whatever its characters are.
func TestPathOfAFileIsOneLine(t *testing.T) {
	var out, err bytes.Buffer
	f := filePrinter{out: &out, err: &err}
	path := "a\x1b[31m\nT-local-x b\xff"
	f.began("T-1", path)
	f.skipped("T-1", path)
	f.waiting(path)
	const shown = `a\x1b[31m\nT-local-x b` + "\ufffd\n"
	if want := "T-1 " + shown + "skipped T-1 " + shown; out.String() != want {
		t.Errorf("got %q, want %q", &out, want)
	}
	if want := "linesman: waiting: another process imports " + shown; err.String() != want {
		t.Errorf("got %q, want %q", &err, want)
	}
}
