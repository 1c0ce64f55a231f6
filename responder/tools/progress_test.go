package tools

import (
	"testing"

	v36 "github.com/linesman/linesman/responder/v36"
)

func TestProgressNeverFallsAndIsToldWhenItChanges(t *testing.T) {
	var told []v36.Progress
	tell := rising(func(p v36.Progress) { told = append(told, p) })
	for _, p := range []v36.Progress{
		at(0, "a"), at(0, "a"), at(50, "b"), at(20, "b"), at(20, "c"), at(-1, "c"), at(100, "c"),
	} {
		tell(p.Percent, p.Message)
	}
	want := []v36.Progress{at(0, "a"), at(50, "b"), at(50, "c"), at(100, "c")}
	if len(told) != len(want) {
		t.Fatalf("told %v", told)
	}
	for i := range want {
		if told[i] != want[i] {
			t.Errorf("told %v, want %v", told[i], want[i])
		}
	}
	rising(nil)(1, "nobody listens")
}

func at(percent float64, message string) v36.Progress {
	return v36.Progress{Percent: percent, Message: message}
}
