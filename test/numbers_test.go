package test

import (
	"regexp"
	"strings"
	"testing"
)

// numbers pairs what a page says with the code that makes it so. White space
// and comments do not count.
var numbers = []struct{ page, says, file, code string }{
	{"README.md", "They need Go 1.26", "go.mod", "go 1.26"},
	{"README.md", "at most 64 KiB of text, a message of 4 KiB and 64 KiB of data", "bounds/bounds.go",
		"MaxMessage = 4096"},
	{"README.md", "kept for 72 hours", "config/config.go", "Raw: streamRetention{MaxAge: 72 * time.Hour}"},
	{"README.md", "the events for 720 (30 days)", "config/config.go", "Events: streamRetention{MaxAge: 720 * time.Hour}"},
	{"docs/operations.md", "124 (a limit), 125 (linesman failed), 126", "cmd/linesman/exit.go", "exitTimeout = 124"},
	{"README.md", "takes tasks, two at a time", "config/config.go", "MaxRuns: 2"},
	{"docs/events.md", "| channel | 128 bytes", "bounds/bounds.go", "MaxChannel = 128"},
	{"docs/events.md", "| message | 4096 bytes", "bounds/bounds.go", "MaxMessage = 4096"},
	{"docs/events.md", "| text | 65536 bytes", "bounds/bounds.go", "MaxText = 65536"},
	{"docs/events.md", "| data | 65536 bytes", "bounds/bounds.go", "MaxData = 65536"},
	{"docs/events.md", "| final text | 65536 bytes", "bounds/bounds.go", "MaxFinalText = 65536"},
	{"docs/events.md", "| line | 8 MiB", "config/config.go", "MaxLineBytes: 8 << 20"},
	{"docs/agents.md", "for `--idle`, 30 minutes by default", "cmd/linesman/sources.go", "`default:\"30m\""},
	{"docs/events.md", "One over 1024 bytes is left out", "normalizer/event.go", "maxSession = 1024"},
	{"docs/subjects.md", "at most 64 bytes; a run id is `[A-Za-z0-9_-]{1,64}`", "runs/id.go", "maxID = 64"},
	{"docs/subjects.md", "72 h, and a size limit", "config/config.go", "Raw: streamRetention{MaxAge: 72 * time.Hour}"},
	{"docs/subjects.md", "last value of each run, 720 h", "config/config.go", "Runs: streamRetention{MaxAge: 720 * time.Hour}"},
	{"docs/subjects.md", "checkpoint, leases, health probe, worker heartbeats; 16 MiB", "bus/streams.go",
		"\">\", 0, 16<<20)"},
	{"docs/subjects.md", "token usage of each thread, 720 h, 64 MiB", "bus/streams.go",
		"\">\", l.RunsAge, 64<<20)"},
	{"docs/subjects.md", "a quarter each for RAW and EVENTS, a twentieth for RUNS", "bus/streams.go",
		"share(l.RunsBytes, defaultRunsBytes, 20)"},
	{"docs/subjects.md", "64 MiB at least", "bus/streams.go", "max(l.Disk/share, 64<<20)"},
	{"docs/subjects.md", "elsewhere 4 GiB, 8 GiB and 1 GiB", "bus/streams.go",
		"defaultRawBytes = 4 << 30 defaultEventsBytes = 8 << 30 defaultRunsBytes = 1 << 30"},
	{"docs/subjects.md", "`linesman.format` is the version of the records, now 1", "bus/streams.go", "const Format = 1"},
	{"docs/subjects.md", "`allow_batched` if the server is 2.14", "bus/streams.go", "b.serverHas(2, 14)"},
	{"docs/subjects.md", "2.11 or newer, with a `max_payload` of 576 KiB", "bus/connect.go", "minPayload = 576 << 10"},
	{"docs/subjects.md", "2.11 or newer", "bus/connect.go", "minMajor, minMinor = 2, 11"},
	{"docs/subjects.md", "the worker sends at most 64 KiB at a time", "runs/entry.go", "const MaxChunk = 64 << 10"},
	{"docs/subjects.md", "at most 1024 bytes of reason", "runs/entry.go", "const MaxReason = 1024"},
	{"docs/subjects.md", "at most 16, keys up to 64 bytes, values up to 256", "runs/labels.go",
		"maxLabels = 16 maxLabelKey = 64 maxLabelValue = 256"},
	{"docs/subjects.md", "at most 64 KiB. `state`", "runs/record.go", "maxRecord = 64 << 10"},
	{"docs/scale.md", "16,384 in the memory of the normalizer", "bus/pipeline/checkpoint.go",
		"maxRuns = 16384 maxStored = 128 << 20"},
	{"docs/scale.md", "at most 1,024 tasks at a time", "config/table.go", "within(&c.Work.MaxRuns, 0, 1024"},
	{"docs/scale.md", "| consumers on EVENTS | 500", "bus/readers.go", "MaxReaders = 500"},
	{"docs/operations.md", "with pauses up to 5 s", "bus/rawlog.go",
		"pause.MaxInterval = 20*time.Millisecond, 5*time.Second"},
	{"docs/operations.md", "and logs it once a minute", "bus/rawlog.go", "time.Since(lastLog) > time.Minute"},
	{"docs/operations.md", "unavailable, 60 s after the end of an agent", "daemon/datadir/dialer.go",
		"const MaxOutage = 60 * time.Second"},
	{"docs/operations.md", "RAW over 80 % of its size", "bus/pipeline/locate.go",
		"state.Bytes < uint64(info.Config.MaxBytes)/5*4"},
	{"docs/operations.md", "the oldest quarter", "bus/pipeline/locate.go", "(state.LastSeq-state.FirstSeq)/4"},
	{"docs/operations.md", "the first 1 MiB as it comes, the last 64 KiB", "worker/send.go",
		"errHead = 1 << 20 errTail = 64 << 10"},
	{"docs/operations.md", "from 64 KiB to 64 MiB", "config/table.go", "within(&c.MaxLineBytes, 64<<10, 64<<20"},
	{"docs/operations.md", "A note in RAW at 90 %", "worker/send.go", "idle/10*9"},
	{"docs/decisions/0047-bursts-of-raw-entries.md", "passes up to 256 entries at once", "bus/rawburst.go",
		"maxBurst = 256"},
	{"docs/operations.md", "stdout open without writing | 60 s", "worker/spec.go", "cmp.Or(s.Limits.Linger, time.Minute)"},
	{"docs/operations.md", "RAW is below 95 % of its size", "bus/health.go", "uint64(size)/20*19"},
	{"docs/operations.md", "`linesman health` every 10 s", "Dockerfile", "HEALTHCHECK --interval=10s"},
	{"docs/architecture.md", "whole lines, at most 64 KiB", "runs/entry.go", "const MaxChunk = 64 << 10"},
	{"docs/architecture.md", "holds it for 60 s more without writing", "worker/spec.go",
		"cmp.Or(s.Limits.Linger, time.Minute)"},
	{"docs/architecture.md", "1024 bytes with a checksum", "worker/dir.go", "markSize = 1024"},
	{"docs/architecture.md", "at most 32 MiB of unfinished lines", "bus/pipeline/memory.go", "const holdBytes = 32 << 20"},
	{"docs/architecture.md", "(4 s, renewed each second)", "bus/lease.go",
		"leaseTTL = 4 * time.Second leaseRenew = time.Second"},
	{"docs/architecture.md", "About once a second", "bus/pipeline/normalizer.go", "cmp.Or(s.CutEvery, time.Second)"},
	{"docs/decisions/0010-ids-that-are-too-long.md", "over 8 KiB of JSON, and a thread id over 64 KiB − 256",
		"normalizer/event.go", "MaxThread = bounds.MaxData - 256 MaxTurn = 8 << 10"},
	{"docs/decisions/0011-least-max-payload.md", "576 KiB is the minimum", "bus/connect.go", "minPayload = 576 << 10"},
	{"docs/decisions/0011-least-max-payload.md", "state beside it up to 272 KiB", "normalizer/state.go",
		"const maxState = 272 << 10"},
	{"docs/decisions/0012-fenced-publishing-and-bursts.md", "at most 4096 in flight", "bus/pipeline/publisher.go",
		"publishWindow = 4096"},
	{"docs/decisions/0012-fenced-publishing-and-bursts.md", "at most 4096 in flight, with an ack timeout of 10 s",
		"bus/pipeline/publisher.go", "ackTimeout = 10 * time.Second"},
	{"docs/decisions/0012-fenced-publishing-and-bursts.md", "more than 64 are in flight", "bus/pipeline/publisher.go",
		"burstAt = 64"},
	{"docs/subjects.md", "at most 10000 tasks, 256 MiB", "bus/streams.go", "maxQueued = 10_000"},
	{"docs/subjects.md", "at most 10000 tasks, 256 MiB", "bus/streams.go", "b.WorkSubjects(), 0, 256<<20, maxQueued"},
	{"docs/subjects.md", "has not started a task after 30 s", "bus/work.go", "AckWait: 30 * time.Second"},
	{"docs/subjects.md", "4096 requests are in flight", "responder/natsapi/natsapi.go", "maxCalls = 4096"},
	{"docs/subjects.md", "Each has a TTL of 4 s", "bus/lease.go", "leaseTTL = 4 * time.Second"},
	{"docs/subjects.md", "after a sixth of `lost_after`, at most 10 s", "bus/lease.go",
		"min(max(ttl/6, 100*time.Millisecond), 10*time.Second)"},
	{"docs/subjects.md", "A diff is cut at 1 MiB", "responder/codexcloud/lines.go", "maxDiff = 1 << 20"},
	{"docs/operations.md", "10000 tasks or 256 MiB", "bus/streams.go", "maxQueued = 10_000"},
	{"docs/operations.md", "`wait` retries for 30 s", "client/wait.go", "maxResponderOutage = 30 * time.Second"},
	{"docs/operations.md", "silent for `lost_after` (2 minutes)", "config/config.go", "LostAfter: 2 * time.Minute"},
	{"docs/operations.md", "no activity for `stuck_after` (1 h)", "config/config.go", "StuckAfter: time.Hour"},
	{"docs/operations.md", "on `127.0.0.1:8422`", "config/config.go", "HTTP: \"127.0.0.1:8422\""},
	{"docs/mcp.md", "1 MiB a message of a client, 1024 calls in flight", "responder/mcp/server.go",
		"maxMessage = 1 << 20"},
	{"docs/mcp.md", "1 MiB a message of a client, 1024 calls in flight", "responder/mcp/server.go", "MaxCalls = 1024"},
	{"docs/rest.md", "1,024 streams and waits", "responder/rest/rest.go", "MaxHeld = 1024"},
	{"docs/mcp.md", "2,048 connections and 256 sessions", "responder/httpserver/httpserver.go", "maxConns = 2048"},
	{"docs/mcp.md", "2,048 connections and 256 sessions", "responder/mcp/http.go", "maxSessions = 256"},
	{"docs/mcp.md", "expires after 12 h without use", "responder/mcp/http.go", "maxRest = 12 * time.Hour"},
	{"docs/mcp.md", "calls have five seconds to answer", "responder/mcp/stdio.go", "lastAnswers = 5 * time.Second"},
	{"docs/mcp.md", "polls it after 5 s, then at growing intervals, up to once a minute",
		"responder/codexcloud/codexcloud.go", "cmp.Or(cfg.Min, 5*time.Second)"},
	{"docs/mcp.md", "polls it after 5 s, then at growing intervals, up to once a minute",
		"responder/codexcloud/codexcloud.go", "cmp.Or(cfg.Max, time.Minute)"},
	{"docs/architecture.md", "answers within five seconds", "bus/control.go", "context.WithTimeout(ctx, 5*time.Second)"},
	{"docs/architecture.md", "ended as lost after a minute", "responder/runtable/cleanup.go",
		"r.endUnqueued(ctx, time.Minute)"},
	{"docs/architecture.md", "redelivered after 30 s", "bus/work.go", "AckWait: 30 * time.Second"},
	{"docs/decisions/0025-turns-count-as-steps.md", "stays at 95 or below until a turn has completed", "runs/progress.go",
		"maxTurnPercent = 95"},
	{"docs/decisions/0007-passwords-and-inbox-prefixes.md", "random passwords (24 bytes)", "bus/embedded/access.go",
		"var b [24]byte"},
	{"docs/watch.md", "for `--stalled-after`, 10 minutes by default", "config/config.go", "StalledAfter: 10 * time.Minute"},
	{"docs/watch.md", "looks at all open runs every five seconds", "cmd/watch/watch.go", "maxPoll = 5 * time.Second"},
	{"docs/watch.md", "The command has 30 s", "cmd/watch/deliver.go", "commandTime = 30 * time.Second"},
	{"docs/watch.md", "Four are delivered at a time", "cmd/watch/watch.go", "slots = 4"},
	{"docs/watch.md", "At most 256 notices wait", "cmd/watch/outbox.go", "maxPending = 256"},
	{"docs/watch.md", "with pauses growing to five minutes", "cmd/watch/watch.go", "maxPause = 5 * time.Minute"},
}

var comment = regexp.MustCompile(`(?m)\s//.*$`)

func TestNumbersAreThoseOfTheCode(t *testing.T) {
	has := func(file, phrase string) bool {
		flat := func(s string) string { return strings.Join(strings.Fields(s), " ") }
		body := text(t, file)
		if strings.HasSuffix(file, ".go") {
			body = comment.ReplaceAllString(body, "")
		}
		return strings.Contains(flat(body), flat(phrase))
	}
	for _, n := range numbers {
		if !has(n.page, n.says) {
			t.Errorf("%s does not say %q", n.page, n.says)
		}
		if !has(n.file, n.code) {
			t.Errorf("%s says %q, and %s no longer has %q", n.page, n.says, n.file, n.code)
		}
	}
}
