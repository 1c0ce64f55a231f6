package runtable

import (
	"strings"
	"testing"
	"unsafe"
)

// What is remembered of a change is the id alone, not the row that it is a part of.
func TestChangesKeepNoRows(t *testing.T) {
	var c changes
	row := strings.Repeat("x", 1<<20)
	c.add(row[:8])
	if unsafe.StringData(c.ids[0]) == unsafe.StringData(row) {
		t.Error("the id keeps all texts of its row")
	}
}
