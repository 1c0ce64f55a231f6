package lazy

import (
	"sync"
	"testing"
)

func TestExpressionIsCompiledOnceAtItsFirstUse(t *testing.T) {
	digits := Regexp(`^[0-9]+$`)
	var all sync.WaitGroup
	for range 4 {
		all.Go(func() {
			if !digits().MatchString("42") || digits().MatchString("4x") {
				t.Error("it does not match as it should")
			}
		})
	}
	all.Wait()
	if first := digits(); first != digits() {
		t.Error("it was compiled twice")
	}
	invalid := Regexp(`(`) // no panic before its use
	defer func() {
		if recover() == nil {
			t.Error("an invalid expression was accepted")
		}
	}()
	invalid()
}
