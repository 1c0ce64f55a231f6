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
const cacheTime = 500 * time.Millisecond

// LimitCaches applies cacheTime to the streams that exist. Call it after streams were
// created; a restart does it itself.
func (s *Server) LimitCaches() { limitCaches(s.current()) }

func limitCaches(s *server.Server) {
	for _, name := range []string{InsideAccount, PublicAccount} {
		if account, err := s.LookupAccount(name); err == nil {
			withStores(account, func(c *server.FileStoreConfig) { c.CacheExpire = cacheTime })
		}
	}
}

// withStores calls do with the configuration of the store of each stream of an account;
// blocks that are opened afterwards follow it. The server gives no access to it, so this
// reads its private fields, each under the lock that guards it. It holds one lock at a time,
// as the server has an order of its own for them. With a version of the server whose fields
// have other names it calls nothing: the default remains.
func withStores(account *server.Account, do func(*server.FileStoreConfig)) {
	var streams []reflect.Value
	guarded(load(reflect.ValueOf(account), "js"), func(js reflect.Value) {
		if all := field(js, "streams"); all.Kind() == reflect.Map {
			for _, name := range all.MapKeys() {
				streams = append(streams, all.MapIndex(name))
			}
		}
	})
	for _, stream := range streams {
		guarded(load(stream, "store"), func(store reflect.Value) {
			if config := field(store, "fcfg"); config.IsValid() {
				if config, ok := config.Addr().Interface().(*server.FileStoreConfig); ok {
					do(config)
				}
			}
		})
	}
}

// load returns a field of the struct that v refers to; none if there is none.
func load(v reflect.Value, name string) (value reflect.Value) {
	guarded(v, func(v reflect.Value) {
		if f := field(v, name); f.IsValid() {
			value = reflect.ValueOf(f.Interface()) // read now
		}
	})
	return value
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
