package embedded

import (
	"reflect"
	"runtime"
	"sync"
	"testing"
	"time"

	"github.com/nats-io/nats-server/v2/server"

	"github.com/linesman/linesman/runs"
	"github.com/linesman/linesman/test/fixture"
	"github.com/linesman/linesman/test/fixture/bustest"
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
	ended := time.AfterFunc(fixture.Patience, func() { panic("both wait for each other") })
	both.Wait()
	ended.Stop()
}

// A block is not cached for long after it is full, unlike the newest one, which the fence of
// the next entry reads.
func TestFullBlocksAreReleasedSoon(t *testing.T) {
	t.Parallel()
	s, b := serve(t)
	account, err := s.current().LookupAccount(InsideAccount)
	if err != nil {
		t.Fatal(err)
	}
	s.LimitCaches()
	subject := b.RawSubject("codex", "x")
	for body := make([]byte, runs.MaxChunk); len(blocksOf(account)) < 4; {
		for range maxBlock / runs.MaxChunk {
			if _, err := b.JetStream().Publish(t.Context(), subject, body); err != nil {
				t.Fatal(err)
			}
		}
	}
	bustest.Until(t, "full blocks are released", func() bool {
		blocks := blocksOf(account)
		for _, b := range blocks[:len(blocks)-1] {
			if b.cached || b.expire != fullTime {
				return false
			}
		}
		return true
	})
	if newest := blocksOf(account); newest[len(newest)-1].expire != cacheTime {
		t.Errorf("the newest block is cached for %v, want %v", newest[len(newest)-1].expire, cacheTime)
	}
}

const maxBlock = 8 << 20 // bytes of a block of the server

// block is what is known of a block of a stream.
type block struct {
	cached bool
	expire time.Duration
}

// blocksOf returns the blocks of the stream of an account that has the most.
func blocksOf(account *server.Account) (most []block) {
	for _, store := range stores(account) {
		var blocks []reflect.Value
		guarded(store, func(store reflect.Value) {
			for i := range field(store, "blks").Len() {
				blocks = append(blocks, reflect.ValueOf(field(store, "blks").Index(i).Interface()))
			}
		})
		if len(blocks) < len(most) {
			continue
		}
		most = nil
		for _, b := range blocks {
			guarded(b, func(b reflect.Value) {
				cached := !field(field(b, "ecache"), "strong").IsNil() || !field(b, "cache").IsNil()
				most = append(most, block{cached, *at[time.Duration](field(b, "cexp"))})
			})
		}
	}
	return most
}
