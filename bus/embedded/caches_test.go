package embedded

import (
	"reflect"
	"runtime"
	"sync"
	"testing"
	"time"

	"github.com/nats-io/nats-server/v2/server"
)

// The server caches blocks of every stream for a short time, also after a restart. With
// another version of the server this fails if its private fields have other names.
func TestCachesOfTheServerAreShort(t *testing.T) {
	t.Parallel()
	s, _ := serve(t)
	check := func(when string) {
		t.Helper()
		for account, least := range map[string]int{InsideAccount: 5, PublicAccount: 1} {
			a, err := s.current().LookupAccount(account)
			if err != nil {
				t.Fatal(err)
			}
			var times []time.Duration
			withStores(a, func(c *server.FileStoreConfig) { times = append(times, c.CacheExpire) })
			if len(times) < least {
				t.Errorf("%s: %d streams of %s are known, want %d", when, len(times), account, least)
			}
			for _, d := range times {
				if d != cacheTime {
					t.Errorf("%s: a stream of %s is cached for %v, want %v", when, account, d, cacheTime)
				}
			}
		}
	}
	s.LimitCaches()
	check("after the streams were created")
	if err := s.Restart(nil); err != nil {
		t.Fatal(err)
	}
	check("after a restart")
}

// The server locks an account while it holds the lock of the account's streams, as in a
// report about them.
func TestLimitCachesHoldsOneLockAtATime(t *testing.T) {
	t.Parallel()
	s, _ := serve(t)
	account, err := s.current().LookupAccount(InsideAccount)
	if err != nil {
		t.Fatal(err)
	}
	var mu *sync.RWMutex
	guarded(reflect.ValueOf(account), func(v reflect.Value) {
		mu = field(field(v, "js").Elem(), "mu").Addr().Interface().(*sync.RWMutex)
	})
	var both sync.WaitGroup
	both.Go(func() {
		for range 2000 {
			s.LimitCaches()
		}
	})
	both.Go(func() {
		for range 20_000 {
			mu.RLock()
			runtime.Gosched()
			account.GetName()
			mu.RUnlock()
		}
	})
	ended := time.AfterFunc(time.Minute, func() { panic("both wait for each other") })
	both.Wait()
	ended.Stop()
}
