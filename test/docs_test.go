package test

import (
	"bytes"
	"encoding/json"
	"fmt"
	"io/fs"
	"maps"
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"slices"
	"strings"
	"testing"
	"unicode"

	"github.com/linesman/linesman/config"
	"github.com/linesman/linesman/normalizer"
	"github.com/linesman/linesman/normalizer/codex"
	"github.com/linesman/linesman/runs"
)

// documents are all pages that users read, by their path in the tree.
func documents(t *testing.T) map[string]string {
	t.Helper()
	all := map[string]string{"README.md": text(t, "README.md"), "CHANGELOG.md": text(t, "CHANGELOG.md")}
	err := filepath.WalkDir("../docs", func(path string, d fs.DirEntry, err error) error {
		if err == nil && strings.HasSuffix(path, ".md") {
			name := strings.TrimPrefix(filepath.ToSlash(path), "../")
			all[name] = text(t, name)
		}
		return err
	})
	if err != nil {
		t.Fatal(err)
	}
	if len(all) < 10 {
		t.Fatalf("only %d pages: %q", len(all), slices.Sorted(maps.Keys(all)))
	}
	return all
}

func TestSettingsFileIsTheExample(t *testing.T) {
	if got := text(t, "docs/linesman.toml"); got != config.Example() {
		t.Errorf("docs/linesman.toml is not what config.Example says:\n%s", config.Example())
	}
}

var (
	link    = regexp.MustCompile(`\]\(([^)\s]+)\)`)
	heading = regexp.MustCompile(`(?m)^#+ (.+)$`)
)

func TestLinksResolve(t *testing.T) {
	found := 0
	for name, page := range documents(t) {
		for _, m := range link.FindAllStringSubmatch(page, -1) {
			if strings.Contains(m[1], "://") {
				continue
			}
			found++
			target, anchor, _ := strings.Cut(m[1], "#")
			to := name
			if target != "" {
				to = filepath.Join(filepath.Dir(name), target)
			}
			if _, err := os.Stat(filepath.Join("..", to)); err != nil {
				t.Errorf("%s: %s leads nowhere", name, m[1])
			} else if anchor != "" && !slices.Contains(anchors(text(t, to)), anchor) {
				t.Errorf("%s: there is no #%s in %s", name, anchor, to)
			}
		}
	}
	if found < 20 {
		t.Errorf("only %d links", found)
	}
}

// anchors are those of a page's headings, as GitHub makes them.
func anchors(page string) []string {
	var all []string
	for _, m := range heading.FindAllStringSubmatch(page, -1) {
		all = append(all, strings.Map(func(r rune) rune {
			switch {
			case r == ' ':
				return '-'
			case unicode.IsLetter(r), unicode.IsDigit(r), r == '-', r == '_':
				return unicode.ToLower(r)
			}
			return -1
		}, m[1]))
	}
	return all
}

// quoted is the program at the start of a command: of a line, behind a pipe,
// run from the source, or in a unit of systemd.
var quoted = regexp.MustCompile(`(?:^ *|\| |ExecStart=\S*/|go run \./cmd/)linesman ([^|<>]+)`)

// commands are the linesman commands in the blocks of a page, as arguments.
func commands(page string) [][]string {
	var all [][]string
	fenced := false
	for line := range strings.Lines(page) {
		line = strings.TrimRight(line, "\n")
		if strings.HasPrefix(line, "```") {
			fenced = !fenced
			continue
		}
		if !fenced && !strings.HasPrefix(line, "    ") {
			continue
		}
		for _, m := range quoted.FindAllStringSubmatch(line, -1) {
			command, _, _ := strings.Cut(m[1], " #")
			all = append(all, arguments(command))
		}
	}
	return all
}

// arguments splits a command as a shell does; double quotes are all it knows.
func arguments(command string) []string {
	var all []string
	for i, part := range strings.Split(command, `"`) {
		if i%2 == 1 {
			all = append(all, part)
		} else {
			all = append(all, strings.Fields(part)...)
		}
	}
	return all
}

// A setting that does not exist keeps a command from running, and all mistakes
// are reported at once: what is left is what is wrong with the command itself.
func TestQuotedCommandsParse(t *testing.T) {
	program := filepath.Join(install(t, "./cmd/linesman"), "linesman")
	const nonsense = "LINESMAN_NO_SUCH_SETTING"
	parse := func(args []string) (mistakes []string) {
		cmd := exec.CommandContext(t.Context(), program, args...)
		cmd.Dir, cmd.Env = "../docs", append(os.Environ(), nonsense+"=1", "HOME="+t.TempDir())
		var stderr bytes.Buffer
		cmd.Stderr = &stderr
		if err := cmd.Run(); err == nil {
			return nil // it needs no settings
		}
		for _, line := range lines(stderr.String()) {
			if !strings.Contains(line, nonsense) && !strings.HasPrefix(line, "Run \"linesman") {
				mistakes = append(mistakes, line)
			}
		}
		return mistakes
	}
	if len(parse([]string{"events", "--nope"})) == 0 || len(parse([]string{"evnts"})) == 0 {
		t.Fatal("this test does not see mistakes")
	}
	n := 0
	for name, page := range documents(t) {
		for _, args := range commands(page) {
			n++
			for _, mistake := range parse(args) {
				t.Errorf("%s: linesman %q: %s", name, args, mistake)
			}
		}
	}
	if n < 15 {
		t.Errorf("only %d commands", n)
	}
}

// Each command of the program is in the README's table, and none that it has not.
func TestCommandsAreDescribed(t *testing.T) {
	program := filepath.Join(install(t, "./cmd/linesman"), "linesman")
	help, err := exec.CommandContext(t.Context(), program, "--help").Output()
	if err != nil {
		t.Fatal(err)
	}
	_, list, _ := strings.Cut(string(help), "Commands:\n")
	list, _, _ = strings.Cut(list, "\n\n")
	var have, want []string
	for line := range strings.Lines(list) {
		want = append(want, strings.Fields(line)[0])
	}
	for _, m := range regexp.MustCompile("(?m)^\\| `linesman ([a-z]+)").FindAllStringSubmatch(text(t, "README.md"), -1) {
		have = append(have, m[1])
	}
	if len(want) == 0 || !slices.Equal(have, want) {
		t.Errorf("the README has the commands %q, the program %q", have, want)
	}
}

var (
	testName  = regexp.MustCompile(`\b(?:Test|Fuzz|Benchmark)[A-Z]\w+`)
	testDecl  = regexp.MustCompile(`(?m)^func ((?:Test|Fuzz|Benchmark)[A-Z]\w*)\(`)
	linkedTo  = regexp.MustCompile("\\[`((?:Test|Fuzz|Benchmark)\\w+)`\\]\\(([^)]+)\\)")
	otherTest = regexp.MustCompile("`(SecretsStay|ChunksDoNotMatter|RecordAgreesWithEvents)`")
)

func TestNamedTestsExist(t *testing.T) {
	declared := map[string]bool{}
	err := filepath.WalkDir("..", func(path string, d fs.DirEntry, err error) error {
		if err != nil {
			return err
		}
		if d.IsDir() && (d.Name() == "node_modules" || d.Name() == ".git") {
			return fs.SkipDir
		}
		if strings.HasSuffix(path, "_test.go") {
			for _, m := range testDecl.FindAllStringSubmatch(text(t, path[len("../"):]), -1) {
				declared[m[1]] = true
			}
		}
		return nil
	})
	if err != nil {
		t.Fatal(err)
	}
	contract := text(t, "normalizer/backendtest/backendtest.go")
	n := 0
	for name, page := range documents(t) {
		for _, test := range testName.FindAllString(page, -1) {
			if n++; !declared[test] {
				t.Errorf("%s: there is no %s", name, test)
			}
		}
		for _, m := range linkedTo.FindAllStringSubmatch(page, -1) {
			if to := filepath.Join(filepath.Dir(name), m[2]); !strings.Contains(text(t, to), "func "+m[1]+"(") {
				t.Errorf("%s: %s is not in %s", name, m[1], to)
			}
		}
		for _, m := range otherTest.FindAllStringSubmatch(page, -1) {
			if !strings.Contains(contract, `t.Run("`+m[1]+`"`) {
				t.Errorf("%s: the contract of backends has no %s", name, m[1])
			}
		}
	}
	if n < 30 {
		t.Errorf("only %d tests are named", n)
	}
}

// numbers pairs what a page says with the code that makes it so. White space
// and comments do not count.
var numbers = []struct{ page, says, file, code string }{
	{"README.md", "They need Go 1.26", "go.mod", "go 1.26"},
	{"README.md", "Text 64 KiB an event, message 4 KiB, data 64 KiB", "bounds/bounds.go", "MaxMessage = 4096"},
	{"README.md", "kept for 72 hours", "config/config.go", "Raw: Retention{MaxAge: 72 * time.Hour}"},
	{"README.md", "the events for 720 (30 days)", "config/config.go", "Events: Retention{MaxAge: 720 * time.Hour}"},
	{"README.md", "124: a limit did; 125: linesman failed; 126, 127", "cmd/linesman/exit.go", "exitTimeout = 124"},
	{"docs/events.md", "| channel | 128 bytes", "bounds/bounds.go", "MaxChannel = 128"},
	{"docs/events.md", "| message | 4096 bytes", "bounds/bounds.go", "MaxMessage = 4096"},
	{"docs/events.md", "| text | 65536 bytes", "bounds/bounds.go", "MaxText = 65536"},
	{"docs/events.md", "| data | 65536 bytes", "bounds/bounds.go", "MaxData = 65536"},
	{"docs/events.md", "| final text | 65536 bytes", "bounds/bounds.go", "MaxFinalText = 65536"},
	{"docs/events.md", "| line | 8 MiB", "config/config.go", "MaxLineBytes: 8 << 20"},
	{"docs/events.md", "One over 1024 bytes is left out", "normalizer/facet.go", "MaxSession = 1024"},
	{"docs/subjects.md", "at most 64 bytes; a run id is `[A-Za-z0-9_-]{1,64}`", "runs/id.go", "MaxID = 64"},
	{"docs/subjects.md", "72 h, a size", "config/config.go", "Raw: Retention{MaxAge: 72 * time.Hour}"},
	{"docs/subjects.md", "last value of each run, 720 h", "config/config.go", "Runs: Retention{MaxAge: 720 * time.Hour}"},
	{"docs/subjects.md", "checkpoint, lease, health probe; 16 MiB", "bus/streams.go", "0, 16<<20, bucketSubject(b.State(), \">\")"},
	{"docs/subjects.md", "what each thread has used, 720 h, 64 MiB", "bus/streams.go", "l.RunsAge, 64<<20, bucketSubject(b.Threads(), \">\")"},
	{"docs/subjects.md", "a quarter each for RAW and EVENTS, a twentieth for RUNS", "bus/streams.go", "size(l.RunsBytes, DefaultRunsBytes, 20)"},
	{"docs/subjects.md", "64 MiB at least", "bus/streams.go", "max(l.Disk/share, 64<<20)"},
	{"docs/subjects.md", "elsewhere 4 GiB, 8 GiB and 1 GiB", "bus/streams.go", "DefaultRawBytes = 4 << 30 DefaultEventsBytes = 8 << 30 DefaultRunsBytes = 1 << 30"},
	{"docs/subjects.md", "`linesman.format` is the version of the records, now 1", "bus/streams.go", "const Format = 1"},
	{"docs/subjects.md", "`allow_batched` where the server is 2.14", "bus/streams.go", "b.serverHas(2, 14)"},
	{"docs/subjects.md", "2.11 or newer, with a `max_payload` of 576 KiB", "bus/connect.go", "MinPayload = 576 << 10"},
	{"docs/subjects.md", "2.11 or newer", "bus/connect.go", "minMajor, minMinor = 2, 11"},
	{"docs/subjects.md", "the worker sends at most 64 KiB at a time", "runs/entry.go", "const MaxChunk = 64 << 10"},
	{"docs/subjects.md", "at most 1024 bytes of reason", "runs/entry.go", "const MaxReason = 1024"},
	{"docs/subjects.md", "at most 16, keys up to 64 bytes, values up to 256", "runs/id.go", "MaxLabels = 16 MaxLabelKey = 64 MaxLabelValue = 256"},
	{"docs/subjects.md", "at most 64 KiB. `state`", "runs/record.go", "MaxRecord = 64 << 10"},
	{"docs/operations.md", "with pauses up to 5 s", "bus/rawlog.go", "pause.MaxInterval = 20*time.Millisecond, 5*time.Second"},
	{"docs/operations.md", "and says so once a minute", "bus/rawlog.go", "time.Since(said) > time.Minute"},
	{"docs/operations.md", "away, 60 s after the end of an agent", "cmd/linesman/run.go", "const away = 60 * time.Second"},
	{"docs/operations.md", "RAW over 80 % of its size", "bus/upkeep.go", "state.Bytes < uint64(info.Config.MaxBytes)/5*4"},
	{"docs/operations.md", "the oldest quarter", "bus/upkeep.go", "(state.LastSeq-state.FirstSeq)/4"},
	{"docs/operations.md", "`spool.max_bytes`, 1 GiB", "config/config.go", "Spool: Spool{MaxBytes: 1 << 30}"},
	{"docs/operations.md", "the first 1 MiB as it comes, the last 64 KiB", "worker/pump.go", "errHead = 1 << 20 errTail = 64 << 10"},
	{"docs/operations.md", "from 64 KiB to 64 MiB", "config/table.go", "between(&c.MaxLineBytes, 64<<10, 64<<20)"},
	{"docs/operations.md", "A note in RAW at 90 %", "worker/pump.go", "idle/10*9"},
	{"docs/operations.md", "`limits.grace`, 5 s", "config/config.go", "Grace: 5 * time.Second"},
	{"docs/operations.md", "stdout in silence | 60 s", "worker/spec.go", "DefaultLinger = time.Minute"},
	{"docs/operations.md", "32 MiB, or twice `max_line_bytes`", "bus/held.go", "const holdBytes = 32 << 20"},
	{"docs/operations.md", "adopts at a time | 4096", "worker/worker.go", "cfg.MaxRuns = 4096"},
	{"docs/operations.md", "events in flight | 4096", "bus/publisher.go", "publishWindow = 4096"},
	{"docs/operations.md", "RAW is below 95 % of its size", "bus/health.go", "uint64(info.Config.MaxBytes)/20*19"},
	{"docs/operations.md", "`linesman health` every 10 s", "Dockerfile", "HEALTHCHECK --interval=10s"},
	{"docs/architecture.md", "whole lines, at most 64 KiB", "runs/entry.go", "const MaxChunk = 64 << 10"},
	{"docs/architecture.md", "holds it in silence for 60 s", "worker/spec.go", "DefaultLinger = time.Minute"},
	{"docs/architecture.md", "1024 bytes with a checksum", "worker/mark.go", "const markSize = 1024"},
	{"docs/architecture.md", "at most 32 MiB of unfinished lines", "bus/held.go", "const holdBytes = 32 << 20"},
	{"docs/architecture.md", "(4 s, renewed each second)", "bus/lease.go", "leaseTTL = 4 * time.Second leaseRenew = time.Second"},
	{"docs/architecture.md", "About once a second", "bus/normalizer.go", "every = time.Second"},
	{"docs/decisions/0010-ids-that-are-too-long.md", "over 8 KiB of JSON, and a thread id over 64 KiB − 256", "normalizer/facet.go", "MaxThread = bounds.MaxData - 256 MaxTurn = 8 << 10"},
	{"docs/decisions/0011-least-max-payload.md", "576 KiB is the least", "bus/connect.go", "MinPayload = 576 << 10"},
	{"docs/decisions/0011-least-max-payload.md", "state beside it up to 480 KiB", "normalizer/state.go", "const MaxState = 480 << 10"},
	{"docs/decisions/0012-fenced-publishing-and-bursts.md", "at most 4096 in flight, with an ack timeout of 10 s", "bus/publisher.go", "ackTimeout = 10 * time.Second"},
	{"docs/decisions/0012-fenced-publishing-and-bursts.md", "more than 1024 are in flight", "bus/publisher.go", "burstAt = 1024"},
	{"docs/decisions/0007-passwords-and-inbox-prefixes.md", "random passwords (24 bytes)", "bus/access.go", "var b [24]byte"},
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

// fence is the body of the first fenced block of a kind, and what follows it.
func fence(page, kind string) (block, rest string, found bool) {
	_, rest, found = strings.Cut(page, "```"+kind+"\n")
	block, rest, closed := strings.Cut(rest, "```\n")
	return block, rest, found && closed
}

// masks hide what differs from one run of the demo to the next.
var masks = []struct {
	what *regexp.Regexp
	with string
}{
	{regexp.MustCompile(`\d{4}-\d\d-\d\dT\d\d:\d\d:\d\d\.\d{3}Z`), "TIME"},
	{regexp.MustCompile(`T-local-[0-9a-z]{15}`), "RUN"},
	{regexp.MustCompile(`took=\d\.\d{3}s`), "took=N"},
	{regexp.MustCompile(`(?m)^ready nats=nats://127\.0\.0\.1:\d+ data=/\S+$`), "READY"},
}

func TestTranscriptIsWhatTheDemoPrints(t *testing.T) {
	want, _, ok := fence(text(t, "README.md"), "transcript")
	if !ok {
		t.Fatal("the README has no transcript")
	}
	i := up(t, filepath.Join(install(t, "./cmd/linesman"), "linesman"), t.TempDir(), "--demo")
	var got strings.Builder
	for !strings.HasSuffix(got.String(), "Ctrl-C ends this server.\n") {
		line, err := i.stdout.ReadString('\n')
		if err != nil {
			t.Fatalf("%v after:\n%s", err, got.String())
		}
		got.WriteString(line)
	}
	have := got.String()
	for _, m := range masks {
		have, want = m.what.ReplaceAllString(have, m.with), m.what.ReplaceAllString(want, m.with)
	}
	if have != want {
		t.Errorf("the demo prints\n%s\nthe README has\n%s", have, want)
	}
}

func TestMessagesOfTheREADMEAreReal(t *testing.T) {
	fold := normalizer.NewFold(codex.Backend{}, "x", 0)
	var real []string
	take := func(m normalizer.Message) { real = append(real, string(m.Body)) }
	code := 0
	fold.Apply(1, runs.Entry{Kind: runs.Out, Body: []byte(text(t, "test/corpus/codex/shell-ok.jsonl"))}, take)
	fold.Apply(2, runs.Entry{Kind: runs.Exited, Body: runs.Encode(runs.Exit{Reason: runs.ReasonExited, Code: &code})}, take)
	n := 0
	for block, rest, ok := fence(text(t, "README.md"), "json"); ok; block, rest, ok = fence(rest, "json") {
		n++
		var compact bytes.Buffer
		if err := json.Compact(&compact, []byte(block)); err != nil {
			t.Errorf("%v in\n%s", err, block)
		} else if !slices.Contains(real, compact.String()) {
			t.Errorf("no message of the recording is\n%s", block)
		}
	}
	if n != 2 {
		t.Errorf("%d messages, want an event and a completion", n)
	}
}

func TestUsersAreDescribed(t *testing.T) {
	i := up(t, filepath.Join(install(t, "./cmd/linesman"), "linesman"), t.TempDir())
	var described []string
	for _, m := range regexp.MustCompile("(?m)^\\| `(\\w+)` \\| (?:inside|public) \\|").FindAllStringSubmatch(text(t, "docs/operations.md"), -1) {
		described = append(described, m[1])
	}
	slices.Sort(described)
	if users := slices.Sorted(maps.Keys(i.credentials)); !slices.Equal(described, users) {
		t.Errorf("docs/operations.md has the users %q, the server %q", described, users)
	}
}

func TestDecisionsAreNumberedAndShort(t *testing.T) {
	entries, err := os.ReadDir("../docs/decisions")
	if err != nil {
		t.Fatal(err)
	}
	for i, e := range entries {
		page := text(t, "docs/decisions/"+e.Name())
		if !strings.HasPrefix(e.Name(), fmt.Sprintf("%04d-", i+1)) || !strings.HasPrefix(page, fmt.Sprintf("# %d. ", i+1)) {
			t.Errorf("%s: not the next number", e.Name())
		}
		for _, part := range []string{"**Context.**", "**Decision.**", "**Consequence.**"} {
			if strings.Count(page, part) != 1 {
				t.Errorf("%s: needs one %s", e.Name(), part)
			}
		}
		if n := strings.Count(page, "\n"); n > 30 {
			t.Errorf("%s: %d lines, want a short page", e.Name(), n)
		}
	}
}
