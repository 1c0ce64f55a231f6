package webhook

import (
	"testing"
	"time"
)

func TestHostHasALimitOfDeliveries(t *testing.T) {
	h, now := newHosts(), time.Now()
	for i := range perHost {
		if _, ok := h.enter("a", false, now); !ok {
			t.Fatalf("delivery %d is turned away", i)
		}
	}
	last := time.Duration(0)
	for range 1000 {
		wait, ok := h.enter("a", false, now)
		if ok || wait <= 0 || wait > 2*maxTurn {
			t.Fatalf("beyond its share: %v, %v", wait, ok)
		}
		last = wait
	}
	if last < 5*time.Second { // 1000 in turns of 4, 50 ms each
		t.Errorf("the last of a thousand is to come again in %v", last)
	}
	if _, ok := h.enter("b", false, now); !ok {
		t.Error("another host has to wait")
	}
	h.leave("a", time.Second, true, now)
	if _, ok := h.enter("a", true, now); !ok {
		t.Error("there is room, and it is turned away")
	}
}

func TestUnreachableHostIsPaused(t *testing.T) {
	h, now := newHosts(), time.Now()
	for fail := range 12 {
		if _, ok := h.enter("a", false, now); !ok {
			t.Fatalf("failure %d: it is turned away at its time", fail)
		}
		if _, ok := h.enter("a", false, now); ok && fail > 0 {
			t.Errorf("failure %d: two at a time to a host that was out of reach", fail)
		} else if ok {
			h.leave("a", time.Millisecond, false, now)
		}
		h.leave("a", 10*time.Second, false, now)
		wait, ok := h.enter("a", false, now)
		if ok || wait < 500*time.Millisecond || wait > 3*maxAway {
			t.Errorf("failure %d: %v, %v", fail, wait, ok)
		}
		now = now.Add(2 * maxAway)
	}
	if _, ok := h.enter("a", true, now); !ok {
		t.Fatal("turned away")
	}
	h.leave("a", time.Millisecond, true, now)
	for range perHost {
		if _, ok := h.enter("a", true, now); !ok {
			t.Error("it is back, and still left alone")
		}
	}
}

func TestIdleHostsAreDropped(t *testing.T) {
	h, now := newHosts(), time.Now()
	name := func(i int) string { return string(rune('a'+i%26)) + time.Duration(i).String() }
	for i := range 3 * maxHosts {
		if _, ok := h.enter(name(i), false, now); !ok {
			t.Fatal("turned away")
		}
		h.leave(name(i), time.Millisecond, i%2 == 0, now)
	}
	if len(h.of) > maxHosts {
		t.Errorf("%d hosts are remembered", len(h.of))
	}
}

func TestStatusesThatAreRetried(t *testing.T) {
	for status, again := range map[int]bool{
		408: true, 425: true, 429: true, 500: true, 502: true, 503: true, 504: true, 599: true,
		300: false, 301: false, 304: false, 308: false, 400: false, 401: false, 403: false, 404: false, 409: false,
		410: false, 422: false, 451: false,
	} {
		if got := !refusal(status).Final; got != again {
			t.Errorf("%d: again %v, want %v", status, got, again)
		}
	}
}

func TestRetryAfter(t *testing.T) {
	now := time.Date(2026, 11, 21, 12, 0, 0, 0, time.UTC)
	for s, want := range map[string]time.Duration{
		"": 0, "5": 5 * time.Second, "0": 0, "-1": 0, "x": 0, "999999": maxRetryAfter, "99999999999999999999": 0,
		"Sat, 21 Nov 2026 12:00:30 GMT": 30 * time.Second, "Sat, 21 Nov 2026 11:00:00 GMT": 0,
		"Sat, 21 Nov 2027 12:00:00 GMT": maxRetryAfter,
	} {
		if got := retryAfter(s, now); got != want {
			t.Errorf("%q: %v, want %v", s, got, want)
		}
	}
}
