package embedded

import (
	"reflect"
	"sync"
	"time"
	"unsafe"

	"github.com/nats-io/nats-server/v2/server"
)

// cacheTime is how long the server keeps a block of a stream, up to 8 MiB, in memory
// after its last use. With its default, 10 s, it keeps all that is stored in 10 s.
const cacheTime = time.Second

// LimitCaches applies cacheTime to the streams that exist. Call it after streams were
// created; a restart does it itself.
func (s *Server) LimitCaches() { limitCaches(s.current()) }

func limitCaches(s *server.Server) {
	for _, name := range []string{InsideAccount, PublicAccount} {
		if account, err := s.LookupAccount(name); err == nil {
			setCacheTime(account, cacheTime)
		}
	}
}

// setCacheTime sets for how long blocks of the streams of an account are cached, those
// that are created from now on, and returns the number of streams. The configuration of
// a store has this time, but the server gives no access to it: this sets the private
// field, under the locks that guard it. With a version of the server whose fields have
// other names it does nothing, and the default remains.
func setCacheTime(account *server.Account, d time.Duration) (streams int) {
	var found []reflect.Value
	guarded(reflect.ValueOf(account), func(account reflect.Value) {
		guarded(field(account, "js"), func(js reflect.Value) {
			if all := field(js, "streams"); all.Kind() == reflect.Map {
				for _, name := range all.MapKeys() {
					found = append(found, all.MapIndex(name))
				}
			}
		})
	})
	for _, stream := range found {
		guarded(stream, func(stream reflect.Value) {
			guarded(field(stream, "store"), func(store reflect.Value) {
				if c := field(store, "fcfg"); c.IsValid() {
					if c, ok := c.Addr().Interface().(*server.FileStoreConfig); ok {
						c.CacheExpire = d
						streams++
					}
				}
			})
		})
	}
	return streams
}

// guarded calls do with the struct that v refers to, while its mutex mu is held; not if
// there is none.
func guarded(v reflect.Value, do func(reflect.Value)) {
	for v.Kind() == reflect.Pointer || v.Kind() == reflect.Interface {
		v = v.Elem()
	}
	if mu := field(v, "mu"); mu.IsValid() {
		if mu, ok := mu.Addr().Interface().(*sync.RWMutex); ok {
			mu.Lock()
			defer mu.Unlock()
			do(v)
		}
	}
}

// field returns a field of a struct, also a private one; none if there is none.
func field(v reflect.Value, name string) reflect.Value {
	if v.Kind() != reflect.Struct {
		return reflect.Value{}
	}
	f := v.FieldByName(name)
	if !f.IsValid() || !f.CanAddr() {
		return reflect.Value{}
	}
	return reflect.NewAt(f.Type(), unsafe.Pointer(f.UnsafeAddr())).Elem()
}
