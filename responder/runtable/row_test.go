package runtable

import (
	"fmt"
	"reflect"
	"testing"
	"unsafe"

	"github.com/linesman/linesman/runs"
)

// TestRowsHaveWholeHeaders packs each field of a header alone, and all of them.
func TestRowsHaveWholeHeaders(t *testing.T) {
	t.Parallel()
	shared := commons{}
	same := func(h runs.Header, name string) {
		r := shared.rowOf(&h)
		if got := r.header(); !reflect.DeepEqual(got, h) {
			t.Errorf("%s: %+v became %+v", name, h, got)
		}
		if r.changedAt() != h.ChangedAt() || r.point(false) != PointOf(false, h) || r.id() != h.ID ||
			r.continues() != h.Continues {
			t.Errorf("%s: another point", name)
		}
	}
	var all runs.Header
	same(all, "nothing")
	outside := map[string]bool{"Position": true, "WorkerLost": true, "Unseen": true} // of an answer, see view
	each := reflect.VisibleFields(reflect.TypeFor[runs.Header]())
	for i, f := range each {
		if f.Anonymous || outside[f.Name] {
			continue
		}
		var one runs.Header
		for _, h := range []*runs.Header{&one, &all} {
			fill(t, reflect.ValueOf(h).Elem().FieldByIndex(f.Index), int64(i+1), f.Name)
		}
		same(one, f.Name)
	}
	same(all, "everything")
	for i := range maxCommons + 8 {
		all.Dir = fmt.Sprint("/srv/", i)
		if same(all, "a directory of its own"); len(shared) > maxCommons {
			t.Fatal("what rows share is not bounded")
		}
	}
}

// fill sets a field to something.
func fill(t *testing.T, v reflect.Value, n int64, name string) {
	switch v.Kind() {
	case reflect.String:
		v.SetString(name)
	case reflect.Bool:
		v.SetBool(true)
	case reflect.Int, reflect.Int64:
		v.SetInt(n)
	case reflect.Uint64:
		v.SetUint(uint64(n))
	case reflect.Pointer:
		v.Set(reflect.New(v.Type().Elem()))
	case reflect.Slice:
		v.Set(reflect.MakeSlice(v.Type(), 2, 2))
	default:
		t.Fatalf("%s is a %s", name, v.Kind())
	}
}

// TestRowsAreSmall: a table of 100,000 runs has as many rows. See docs/performance.md.
func TestRowsAreSmall(t *testing.T) {
	t.Parallel()
	if row, header := unsafe.Sizeof(entry{}), unsafe.Sizeof(runs.Header{}); row > 192 || row > header/3 {
		t.Errorf("a row takes %d bytes, and a header %d", row, header)
	}
}
