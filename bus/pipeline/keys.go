package pipeline

import (
	"context"
	"hash/maphash"
	"sync/atomic"

	"github.com/nats-io/nats.go"
	"github.com/nats-io/nats.go/jetstream"
	"github.com/tidwall/gjson"

	"github.com/linesman/linesman/bus"
	"github.com/linesman/linesman/bus/bucket"
	"github.com/linesman/linesman/bus/reader"
	"github.com/linesman/linesman/runs"
)

// Mostly nothing is stored under the id of a new run, or under its thread. After some requests that found nothing, the
// keys of the bucket are listed, if they fit into one answer of the server. From then on no other keys are requested.
const (
	missesToList = 256
	maxListed    = 100_000 // by the server, see [listKeys]
)

// begins reports whether an entry is the first one of a run; the start of a queued task is not. Other entries may be
// of a run that was forgotten after its record had expired: that adds a marker, which no list has.
func begins(h nats.Header, body []byte) bool {
	kind := runs.Kind(h.Get(bus.HeaderRecord))
	return kind == runs.Queued || kind == runs.Started && !gjson.GetBytes(body, "work_seq").Exists()
}

// keySet has all keys of a bucket, and maybe others: removed ones, and such with an equal hash.
//
// Of the keys that are not listed, only this term adds any. Another normalizer, which has lost the lease, may still be
// storing its last records: so the list must be newer than a record of this term, of which the fences say that the
// checkpoint was ours. A record that comes later all the same is of a run that this term reads, too: one is refused.
type keySet struct {
	hashes  map[uint64]struct{} // first those that this term has added; nil: there are too many
	acked   atomic.Uint64       // the last sequence of this term in the bucket
	misses  int                 // requests that found nothing
	listing chan []uint64       // receives a list, or nil if there is none; nil: none was requested
	listed  bool
}

func newKeySet() *keySet { return &keySet{hashes: map[uint64]struct{}{}} }

var keySeed = maphash.MakeSeed()

func hashOf(key string) uint64 { return maphash.String(keySeed, key) }

// add adds a key that this term will store.
func (k *keySet) add(key string) {
	if k.hashes != nil {
		k.hashes[hashOf(key)] = struct{}{}
	}
}

// trim forgets the keys if there are too many: most have expired. No write may be in transit.
func (k *keySet) trim() {
	if len(k.hashes) > 4*maxListed {
		k.hashes, k.misses, k.listing, k.listed = map[uint64]struct{}{}, 0, nil, false
	}
}

// lacks reports whether the bucket is known to have no entry of a key.
func (k *keySet) lacks(key string) bool {
	if k.listing != nil && !k.listed {
		select {
		case list := <-k.listing:
			for _, hash := range list {
				k.hashes[hash] = struct{}{}
			}
			if k.listed = list != nil; !k.listed {
				k.hashes = nil // each key is requested, in this term
			}
		default:
		}
	}
	if !k.listed {
		return false
	}
	_, has := k.hashes[hashOf(key)]
	return !has
}

// missed notes that a request found nothing. After enough of them it lists the keys of the bucket, in the background.
func (k *keySet) missed(js jetstream.JetStream, of string, toList int) {
	k.misses++
	if acked := k.acked.Load(); k.misses >= toList && acked > 0 && k.listing == nil {
		k.listing = make(chan []uint64, 1)
		go func(to chan<- []uint64) {
			ctx, cancel := context.WithTimeout(context.Background(), reader.AnswerTimeout)
			defer cancel()
			to <- listKeys(ctx, js, of, acked)
		}(k.listing)
	}
}

// listKeys returns the hashes of the keys of a bucket, at a sequence or later; nil if that is not possible.
func listKeys(ctx context.Context, js jetstream.JetStream, of string, since uint64) []uint64 {
	stream, err := js.Stream(ctx, bucket.Stream(of))
	if err != nil || stream.CachedInfo().State.NumSubjects >= maxListed {
		return nil
	}
	info, err := stream.Info(ctx, jetstream.WithSubjectFilter(bucket.Subject(of, ">")))
	if err != nil || len(info.State.Subjects) >= maxListed || info.State.LastSeq < since {
		return nil // it is in several answers, between which keys may have expired, or of a server that lags
	}
	prefix, list := len(bucket.Subject(of, "")), make([]uint64, 0, len(info.State.Subjects))
	for subject := range info.State.Subjects {
		list = append(list, hashOf(subject[prefix:]))
	}
	return list
}
