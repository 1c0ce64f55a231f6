package natsapi

import (
	"crypto/rand"
	"encoding/json"
	"maps"
	"sync"
	"time"

	"github.com/nats-io/nats.go"
	"github.com/nats-io/nats.go/micro"
)

// registration is the service as the tools of NATS see it: its endpoints, and
// the answers of micro's protocol to PING, INFO and STATS. It takes the place of
// [micro.AddService], which times a handler until it returns and counts the
// errors sent by then. The handlers here return before the answer is sent.
type registration struct {
	identity  micro.ServiceIdentity
	started   time.Time
	endpoints []*endpoint // changed only before announce
	subs      []*nats.Subscription
}

func newRegistration(version string, metadata map[string]string) *registration {
	own := map[string]string{}
	maps.Copy(own, metadata)
	return &registration{
		identity: micro.ServiceIdentity{Name: "linesman", ID: rand.Text(), Version: Semver(version),
			Metadata: own},
		started: time.Now().UTC(),
	}
}

// endpoint is a subject of the service, and the statistics of its requests.
type endpoint struct {
	Endpoint
	info micro.EndpointInfo

	mu    sync.Mutex
	stats micro.EndpointStats
}

// count adds a request that was answered.
func (e *endpoint) count(took time.Duration, failure string) {
	e.mu.Lock()
	defer e.mu.Unlock()
	e.stats.NumRequests++
	e.stats.ProcessingTime += took
	if failure != "" {
		e.stats.NumErrors++
		e.stats.LastError = failure
	}
}

// read returns the statistics.
func (e *endpoint) read() *micro.EndpointStats {
	e.mu.Lock()
	defer e.mu.Unlock()
	s := e.stats
	if s.NumRequests > 0 {
		s.AverageProcessingTime = s.ProcessingTime / time.Duration(s.NumRequests)
	}
	return &s
}

// add subscribes an endpoint.
func (r *registration) add(c Config, of Endpoint, request func(job)) error {
	const group = micro.DefaultQueueGroup
	subject := c.Root + "." + of.Name
	e := &endpoint{
		Endpoint: of,
		info:     micro.EndpointInfo{Name: of.Name, Subject: subject, QueueGroup: group, Metadata: of.Metadata},
		stats:    micro.EndpointStats{Name: of.Name, Subject: subject, QueueGroup: group},
	}
	sub, err := c.Conn.QueueSubscribe(subject, group, func(m *nats.Msg) {
		request(job{to: e, request: m, begun: time.Now()})
	})
	if err != nil {
		return err
	}
	r.endpoints, r.subs = append(r.endpoints, e), append(r.subs, sub)
	return nil
}

// announce answers PING, INFO and STATS.
func (r *registration) announce(conn *nats.Conn) error {
	info := micro.Info{
		ServiceIdentity: r.identity, Type: micro.InfoResponseType,
		Description: "runs of coding agents: how they stand, what came of them",
	}
	for _, e := range r.endpoints {
		info.Endpoints = append(info.Endpoints, e.info)
	}
	for verb, answer := range map[micro.Verb]func() any{
		micro.PingVerb: func() any { return micro.Ping{ServiceIdentity: r.identity, Type: micro.PingResponseType} },
		micro.InfoVerb: func() any { return info },
		micro.StatsVerb: func() any {
			stats := micro.Stats{ServiceIdentity: r.identity, Type: micro.StatsResponseType, Started: r.started}
			for _, e := range r.endpoints {
				stats.Endpoints = append(stats.Endpoints, e.read())
			}
			return stats
		},
	} {
		for _, to := range [][2]string{{}, {r.identity.Name}, {r.identity.Name, r.identity.ID}} {
			subject, err := micro.ControlSubject(verb, to[0], to[1])
			if err != nil {
				return err
			}
			sub, err := conn.Subscribe(subject, func(m *nats.Msg) {
				if body, err := json.Marshal(answer()); err == nil {
					_ = m.Respond(body) // a client that got none asks again
				}
			})
			if err != nil {
				return err
			}
			r.subs = append(r.subs, sub)
		}
	}
	return nil
}

// stop ends the subscriptions. Requests already received still reach the
// endpoints.
func (r *registration) stop() {
	for _, sub := range r.subs {
		_ = sub.Drain() // fails only if the connection is closed
	}
}
