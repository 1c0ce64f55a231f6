package main

import (
	"fmt"
	"os"
	"testing"
)

func TestShimsAreQuiet(t *testing.T) {
	if want := fmt.Sprintf("/proc/%d/stat", os.Getpid()); procStatFile != want {
		t.Errorf("the NATS server reads %q each second, want %q: shims have to prevent it otherwise", procStatFile, want)
	}
}
