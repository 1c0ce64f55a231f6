package embedded

import (
	"context"
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
	for _, account := range accounts(s) {
		withStores(account, func(c *server.FileStoreConfig) { c.CacheExpire = cacheTime })
	}
}

// accounts returns the accounts that have streams.
func accounts(s *server.Server) (all []*server.Account) {
	for _, name := range []string{InsideAccount, PublicAccount} {
		if account, err := s.LookupAccount(name); err == nil {
			all = append(all, account)
		}
	}
	return all
}

const (
	// fullTime is as cacheTime, for blocks that are full. The server adds up to two ticks of
	// 100 ms.
	fullTime = time.Millisecond
	// releaseInterval is how often full blocks are looked for while there are any, and
	// idleInterval is how often otherwise.
	releaseInterval = 50 * time.Millisecond
	idleInterval    = cacheTime
)

// releaseFull applies fullTime to blocks that have become full, until ctx ends. The server
// does not write to such a block again. With cacheTime it would keep all that a backlog
// stores meanwhile: 130 MB at 200 MB/s.
func (s *Server) releaseFull(ctx context.Context) {
	wait := time.NewTimer(idleInterval)
	defer wait.Stop()
	for quiet := 0; ; quiet++ {
		select {
		case <-ctx.Done():
			return
		case <-wait.C:
		}
		for _, account := range accounts(s.current()) {
			for _, block := range fullBlocks(account) {
				quiet = 0
				guarded(block, func(block reflect.Value) {
					*at[time.Duration](field(block, "cexp")) = fullTime
					if timer := at[*time.Timer](field(block, "ctmr")); timer != nil && *timer != nil {
						(*timer).Reset(fullTime)
					}
				})
			}
		}
		if quiet < int(cacheTime/releaseInterval) {
			wait.Reset(releaseInterval)
		} else {
			wait.Reset(idleInterval)
		}
	}
}

// fullBlocks returns the blocks of an account, without the newest of each stream, to which
// fullTime was not applied.
func fullBlocks(account *server.Account) (full []reflect.Value) {
	for _, store := range stores(account) {
		guarded(store, func(store reflect.Value) {
			blocks := field(store, "blks")
			if blocks.Kind() != reflect.Slice {
				return
			}
			for i := blocks.Len() - 2; i >= 0; i-- {
				// Only releaseFull changes it, so no lock is needed.
				expire := at[time.Duration](field(reflect.Indirect(blocks.Index(i)), "cexp"))
				if expire == nil || *expire == fullTime {
					break // and those before
				}
				full = append(full, reflect.ValueOf(blocks.Index(i).Interface()))
			}
		})
	}
	return full
}

// withStores calls do with the configuration of the store of each stream of an account;
// blocks that are opened afterwards follow it. With a version of the server whose fields
// have other names it calls nothing: the default remains.
func withStores(account *server.Account, do func(*server.FileStoreConfig)) {
	for _, store := range stores(account) {
		guarded(store, func(store reflect.Value) {
			if config := at[server.FileStoreConfig](field(store, "fcfg")); config != nil {
				do(config)
			}
		})
	}
}

// stores returns the stores of the streams of an account. The server gives no access to them, so
// this reads its private fields, each under the lock that guards it. It holds one lock at a time,
// as the server has an order of its own for them.
func stores(account *server.Account) (all []reflect.Value) {
	var streams []reflect.Value
	guarded(load(reflect.ValueOf(account), "js"), func(js reflect.Value) {
		if all := field(js, "streams"); all.Kind() == reflect.Map {
			for _, name := range all.MapKeys() {
				streams = append(streams, all.MapIndex(name))
			}
		}
	})
	for _, stream := range streams {
		all = append(all, load(stream, "store"))
	}
	return all
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
	if mu := at[sync.RWMutex](field(v, "mu")); mu != nil {
		mu.Lock()
		defer mu.Unlock()
		do(v)
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

// at returns the address of a field of a type; nil if there is none, or if it has another type.
func at[T any](f reflect.Value) *T {
	if !f.IsValid() {
		return nil
	}
	address, _ := f.Addr().Interface().(*T)
	return address
}
