package main

// row is a line of the table: one metric, and what it should be.
type row struct {
	what   string
	source string // a scenario, or a Go benchmark with its sub-benchmark
	metric string
	goal   goal
}

// goal is a bound; the zero value is none.
type goal struct {
	op    string // "≥" or "≤"
	bound float64
}

func atLeast(x float64) goal { return goal{"≥", x} }
func atMost(x float64) goal  { return goal{"≤", x} }

var none goal

// rows is the whole table.
//
// Z is a bare fast-ingest publisher of 330-byte bodies, X one by PublishMsgAsync with ids, in the
// same run. small are lines of 243 bytes, mix lines of 1.8 KB, real the recordings of the agents.
var rows = []row{
	{"pipeline in one process, small, of Z", "Pipeline", "small/Z", atLeast(0.75)},
	{"pipeline in one process, small, of X", "Pipeline", "small/X", atLeast(1.2)},
	{"pipeline in one process, mix, of Z", "Pipeline", "mix/Z", atLeast(0.55)},
	{"pipeline in one process, mix, of X", "Pipeline", "mix/X", atLeast(0.85)},
	{"pipeline in one process, real, of Z", "Pipeline", "real/Z", none},
	{"CPU of that process, µs a mix line", "Pipeline", "mix-cpu-us/line", atMost(20)},
	{"CPU of a run of 21 events, of 21 messages of Z", "ShortRuns/live", "run/Z", none},
	{"- in a backlog", "ShortRuns/backlog", "run/Z", atMost(2.5)},

	{"tail --once of 4 files into up, small, of Z", "tail", "small/Z", atLeast(0.5)},
	{"tail --once of 4 files into up, mix, of Z", "tail", "mix/Z", atLeast(0.4)},
	{"tail --once of all recordings into up, of Z", "tail", "real/Z", none},
	{"tail --once of 4 files into up, small, of X", "tail", "small/X", none},
	{"tail --once of 4 files into up, mix, of X", "tail", "mix/X", none},
	{"tail --once of 4 files into up, small, lines/s", "tail", "small-lines/s", none},
	{"tail --once of 4 files into up, mix, lines/s", "tail", "mix-lines/s", none},
	{"tail --once of all recordings into up, lines/s", "tail", "real-lines/s", none},
	{"tail --once of all recordings into up, runs/s", "tail", "real-runs/s", none},
	{"Z in processes of its own, messages/s", "tail", "Z-msgs/s", none},
	{"X in processes of its own, messages/s", "tail", "X-msgs/s", none},

	{"CPU of worker, normalizer and server, µs a mix line", "cpu", "mix-us/line", none},
	{"- the worker (tail)", "cpu", "mix-worker-us/line", none},
	{"- the normalizer", "cpu", "mix-normalizer-us/line", none},
	{"- the server", "cpu", "mix-server-us/line", none},
	{"- the responder", "cpu", "mix-responder-us/line", none},
	{"CPU of worker, normalizer and server, µs a small line", "cpu", "small-us/line", none},

	{"gjson against the scan of a line, small", "ScanAgainstReference/small", "x-gjson", atLeast(3.5)},
	{"gjson against the scan of a line, mix", "ScanAgainstReference/mix", "x-gjson", atLeast(6)},
	{"Fold against its own scan, small", "FoldAgainstScan/small", "x-scan", atMost(2.5)},
	{"Fold against its own scan, mix", "FoldAgainstScan/mix", "x-scan", atMost(1.6)},
	{"Fold against its own scan, real", "FoldAgainstScan/real", "x-scan", none},
	{"message in a line of 64 KiB against lines of 1 KB, a byte", "LineLength/message/fold", "64KiB/1KB", none},
	{"- of 8 MB", "LineLength/message/fold", "8MB/1KB", none},
	{"- of 60 MB", "LineLength/message/fold", "60MB/1KB", atMost(2)},
	{"- of 60 MB, with details", "LineLength/message/detail", "60MB/1KB", atMost(2)},
	{"output of a command in a line of 60 MB against lines of 1 KB, a byte", "LineLength/output/fold", "60MB/1KB",
		atMost(2)},
	{"- of 60 MB, over the limit", "LineLength/output/fold", "60MB-too-long/1KB", none},
	{"normalize, mix, GB/s a core", "normalize", "mix-GB/s", atLeast(0.5)},
	{"normalize, small, GB/s a core", "normalize", "small-GB/s", none},
	{"CPU of jq -c . against normalize, small", "normalize", "small-jq/normalize", atLeast(6)},
	{"CPU of jq -c . against normalize, mix", "normalize", "mix-jq/normalize", atLeast(15)},

	{"one file by tail --once, small, of version " + oldVersion, "one", "small/old", atLeast(3)},
	{"one file by tail --once, mix, of version " + oldVersion, "one", "mix/old", atLeast(3)},
	{"one file by tail --once, small, MB/s", "one", "small-MB/s", none},
	{"one file by tail --once, mix, MB/s", "one", "mix-MB/s", none},
	{"- until its events are stored, small, of version " + oldVersion, "one", "stored-small/old", none},
	{"- until its events are stored, mix, of version " + oldVersion, "one", "stored-mix/old", none},
	{"one run by pipe --wait, small, of Z", "one", "pipe-small/Z", none},
	{"one run by pipe --wait, mix, of Z", "one", "pipe-mix/Z", none},
	{"one run by run -- cat, small, of Z", "one", "run-small/Z", none},
	{"one run by run -- cat, mix, of Z", "one", "run-mix/Z", none},

	{"1,000 runs by one tail --once, lines/s of Z", "many", "tail/Z", none},
	{"1,000 runs by one tail --once, runs/s", "many", "tail-runs/s", none},
	{"1,000 runs by one tail --once, peak memory of up, MB", "many", "tail-peak-MB", none},
	{"50 commands run at once, runs/s", "many", "run-runs/s", none},

	{"three servers, three copies: tail of 4 files, small, of Z", "replicas", "small/Z", none},
	{"three servers, three copies: tail of 4 files, mix, of Z", "replicas", "mix/Z", none},
	{"three servers, three copies: tail of 4 files, small, lines/s", "replicas", "small-lines/s", none},
	{"three servers, three copies: tail of 4 files, mix, lines/s", "replicas", "mix-lines/s", none},

	{"latency at 100 lines/s, p50, ms", "latency", "100-p50-ms", none},
	{"latency at 100 lines/s, p99, ms", "latency", "100-p99-ms", none},
	{"latency at 100 lines/s, p99.9, ms", "latency", "100-p99.9-ms", none},
	{"latency at 20,000 lines/s, p50, ms", "latency", "20k-p50-ms", none},
	{"latency at 20,000 lines/s, p99, ms", "latency", "20k-p99-ms", none},
	{"latency at 20,000 lines/s, p99.9, ms", "latency", "20k-p99.9-ms", none},
	{"latency at saturation, p50, ms", "latency", "full-p50-ms", none},
	{"latency at saturation, p99, ms", "latency", "full-p99-ms", none},
	{"latency at saturation, p99.9, ms", "latency", "full-p99.9-ms", none},
	{"lines/s of one followed file at saturation", "latency", "full-lines/s", none},
	{"Z: latency at 100 messages/s, p50, ms", "latency", "Z-100-p50-ms", none},
	{"Z: latency at 100 messages/s, p99, ms", "latency", "Z-100-p99-ms", none},
	{"Z: latency at 100 messages/s, p99.9, ms", "latency", "Z-100-p99.9-ms", none},
	{"Z: latency at 20,000 messages/s, p50, ms", "latency", "Z-20k-p50-ms", none},
	{"Z: latency at 20,000 messages/s, p99, ms", "latency", "Z-20k-p99-ms", none},
	{"Z: latency at 20,000 messages/s, p99.9, ms", "latency", "Z-20k-p99.9-ms", none},
	{"Z: latency at saturation, p50, ms", "latency", "Z-full-p50-ms", none},
	{"Z: latency at saturation, p99, ms", "latency", "Z-full-p99-ms", none},
	{"Z: latency at saturation, p99.9, ms", "latency", "Z-full-p99.9-ms", none},

	{"memory of a fresh up, MB", "memory", "fresh-MB", none},
	{"peak memory of up, three files of 200 MB mix one by one, MB", "memory", "peak-MB", atMost(300)},
	{"memory of up a minute later, MB", "memory", "later-MB", atMost(100)},
	{"binary, stripped, MB", "memory", "binary-MB", none},

	{"status of one run against a core request", "Status/100000", "x-bare", atMost(1.3)},
	{"start of a responder at 100,000 runs against an empty replay", "Start", "x-replay", atMost(1.5)},
	{"CPU time of that start against an empty replay", "Start", "x-replay-cpu", none},
	{"CPU time of a list of 100,000 runs without encoding, ms", "List", "cpu-ms", atMost(50)},
	{"100,000 runs against 1,000: memory of the responder, a run", "GrowthOfRuns", "memory-100k/1k", none},
	{"100,000 runs against 1,000: start of the responder, a run", "GrowthOfRuns", "start-100k/1k", none},
	{"100,000 runs against 1,000: list, a run", "GrowthOfRuns", "list-100k/1k", none},
	{"100,000 runs against 1,000: status of one run", "GrowthOfRuns", "status-100k/1k", none},
	{"output of a short run against a core request", "Output", "short-ends/bare", none},
	{"page of 64 KiB of a large output against a core request", "Output", "large-page/bare", none},
	{"page of 32 KiB of 2,000 small entries against a core request", "Output", "small-page/bare", none},
	{"CPU time of an event to 10 streams over HTTP, us", "SSE/all/10", "us/delivery", atMost(3)},
	{"- to 100", "SSE/all/100", "us/delivery", atMost(3)},
	{"- to 1,000", "SSE/all/1000", "us/delivery", atMost(3)},
	{"- to 1,000, against writing the same bytes", "SSE/all/1000", "x-bare", none},
	{"- of a run, to 1,000", "SSE/run/1000", "us/delivery", atMost(3)},
	{"CPU time of up, an event of a whole read, us", "reads", "up-us/event", atMost(8)},
	{"- against a consumer of the client library", "reads", "up/consumer", none},
	{"- and of the command, us", "reads", "us/event", none},
	{"CPU time of a rebuild and up, an event, us", "reads", "rebuild-us/event", atMost(20)},
	{"- against a consumer of the client library and up", "reads", "rebuild/consumer", none},
	{"- an event of runs of 21, us", "reads", "short-us/event", atMost(20)},
	{"- an event of runs of 21, against a consumer and up", "reads", "short/consumer", none},

	{"bytes of EVENTS, of small lines", "stored", "small-events/input", none},
	{"- of an event: the body", "stored", "small-events-body-B", none},
	{"- of an event: the subject", "stored", "small-events-subject-B", none},
	{"- of an event: headers", "stored", "small-events-headers-B", none},
	{"- of an event: the server's record", "stored", "small-events-record-B", none},
	{"bytes of RAW, of small lines", "stored", "small-raw/input", none},
	{"bytes of all streams, of short runs of 21 small lines", "stored", "short/input", none},
	{"- RUNS", "stored", "short-runs/input", none},
	{"rate of a rebuild against the live rate, mix", "Rebuild", "rebuild/live", atLeast(0.9)},
	{"100,000 events against 10,000: start of the server", "GrowthOfEvents", "stopped-server-100k/10k", none},
	{"100,000 events against 10,000: start of the normalizer", "GrowthOfEvents", "stopped-normalizer-100k/10k", none},
	{"- after a kill", "GrowthOfEvents", "killed-normalizer-100k/10k", none},
	{"100,000 events against 10,000: start of the responder", "GrowthOfEvents", "stopped-responder-100k/10k", none},
	{"100,000 events against 10,000: CPU time of a replay, an event", "GrowthOfEvents", "replay-cpu-100k/10k", none},
	{"100,000 events against 10,000: CPU time of a rebuild, an event", "GrowthOfEvents", "rebuild-cpu-100k/10k", none},
	{"10,000 events by direct gets, against a consumer", "ReadEvents", "run-direct/consumer", none},
}

// benchmark is a Go benchmark that the table takes metrics from.
type benchmark struct{ name, pkg, times, quick string }

var benchmarks = []benchmark{
	{"Pipeline", "./bus/pipeline", "5x", "1x"},
	{"ShortRuns", "./bus/pipeline", "3x", "1x"},
	{"ScanAgainstReference", "./agent/codex", "20x", "5x"},
	{"FoldAgainstScan", "./agent/codex", "1s", "300ms"},
	{"LineLength", "./normalizer", "5x", "2x"},
	{"Status", "./responder/runtable", "1s", "300ms"},
	{"List", "./responder/runtable", "50x", "20x"},
	{"GrowthOfRuns", "./responder/runtable", "1x", "1x"},
	{"Start", "./responder/runtable", "5x", "3x"},
	{"SSE", "./responder/rest", "3x", "1x"},
	{"Output", "./bus", "20x", "5x"},
	{"Rebuild", "./bus/pipeline", "3x", "1x"},
	{"GrowthOfEvents", "./test/bench", "1x", "1x"},
	{"ReadEvents", "./bus/pipeline", "3x", "1x"},
}

type namedScenario struct {
	name string
	run  scenario
}

// scenarios measure whole processes.
var scenarios = []namedScenario{
	{"tail", measureTail},
	{"cpu", measureCPU},
	{"normalize", measureNormalize},
	{"one", measureOne},
	{"many", measureMany},
	{"replicas", measureReplicas},
	{"latency", measureLatency},
	{"memory", measureMemory},
	{"reads", measureReads},
	{"stored", measureStored},
}
