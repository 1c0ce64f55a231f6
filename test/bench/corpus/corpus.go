// Package corpus makes agent output to measure with: lines in the shapes that
// Codex prints, of realistic lengths, with realistic texts. The same call
// always gives the same bytes.
package corpus

import (
	"bytes"
	"math"
	"math/rand/v2"
	"strconv"
)

// Small is n lines of 243 bytes on average, each with its newline: an agent
// that makes many short steps.
func Small(n int) []byte {
	g := newGenerator()
	for range n {
		g.line(140 + g.rnd.IntN(199))
	}
	return g.out
}

// Mix is n lines of 1.8 KB on average, each with its newline: half of them of
// at most 260 bytes, one in a hundred of 46 KB and more, none over 210 KB.
func Mix(n int) []byte {
	g := newGenerator()
	for range n {
		switch p := g.rnd.Float64(); {
		case p < 0.884:
			g.line(200 + g.rnd.IntN(109))
		case p < 0.9855:
			g.line(g.between(300, 16_000))
		default:
			g.line(g.between(24_000, 205_000))
		}
	}
	return g.out
}

// Lines are the lines of out without their newlines, in place.
func Lines(out []byte) [][]byte {
	lines := bytes.Split(out, []byte{'\n'})
	return lines[:len(lines)-1]
}

// generator writes lines one after the other.
type generator struct {
	rnd  *rand.Rand
	out  []byte
	item int
}

func newGenerator() *generator {
	return &generator{rnd: rand.New(rand.NewPCG(1, 2))}
}

// between draws a length whose logarithm is evenly distributed.
func (g *generator) between(low, high float64) int {
	return int(low * math.Pow(high/low, g.rnd.Float64()))
}

// shape is one kind of line: what stands before and behind the text that
// makes up its length.
type shape struct {
	weight       int
	opens        bool // the line is the first one of its item
	before, last string
}

// The shapes as recorded from the real program; # is the number of the item.
var shapes = []shape{
	{22, true, `{"type":"item.started","item":{"id":"item_#","type":"command_execution","command":"/bin/bash -lc '`,
		`'","aggregated_output":"","exit_code":null,"status":"in_progress"}}`},
	{22, false, `{"type":"item.completed","item":{"id":"item_#","type":"command_execution","command":"/bin/bash -lc 'go test ./...'","aggregated_output":"`, `","exit_code":0,"status":"completed"}}`},
	{5, false, `{"type":"item.completed","item":{"id":"item_#","type":"command_execution","command":"/bin/bash -lc 'make lint'","aggregated_output":"`, `","exit_code":2,"status":"failed"}}`},
	{16, true, `{"type":"item.completed","item":{"id":"item_#","type":"agent_message","text":"`, `"}}`},
	{14, true, `{"type":"item.completed","item":{"id":"item_#","type":"reasoning","text":"`, `"}}`},
	{5, true, `{"type":"item.started","item":{"id":"item_#","type":"mcp_tool_call","server":"docs","tool":"search","arguments":{"limit":10,"text":"`, `"},"result":null,"error":null,"status":"in_progress"}}`},
	{5, false, `{"type":"item.completed","item":{"id":"item_#","type":"mcp_tool_call","server":"docs","tool":"search","arguments":{"limit":10},"result":{"content":[{"type":"text","text":"`, `"}],"structured_content":null},"error":null,"status":"completed"}}`},
	{4, true, `{"type":"item.started","item":{"id":"item_#","type":"web_search","id":"ws_#","query":"`,
		`","action":{"type":"other"}}}`},
	{3, false, `{"type":"item.updated","item":{"id":"item_#","type":"todo_list","items":[{"text":"Read the code","completed":true},{"text":"`, `","completed":false}]}}`},
	{2, false, `{"type":"error","message":"`, `"}`},
}

const (
	changes = `{"type":"item.completed","item":{"id":"item_#","type":"file_change","changes":[`
	change  = `{"path":"/home/dev/project/internal/server/handler.go","kind":"update"}`
	usage   = `{"type":"turn.completed","usage":{"input_tokens":240123,"cached_input_tokens":200456,"cache_write_input_tokens":0,"output_tokens":16078,"reasoning_output_tokens":4012}}`
)

// line writes a line of about size bytes.
func (g *generator) line(size int) {
	p := g.rnd.IntN(103)
	for i := range shapes {
		s := &shapes[i]
		if p -= s.weight; p >= 0 {
			continue
		}
		if s.opens {
			g.item++
		}
		g.put(s.before)
		g.words(size - len(s.before) - len(s.last))
		g.put(s.last)
		g.out = append(g.out, '\n')
		return
	}
	if size < 180 {
		g.out = append(append(g.out, usage...), '\n')
		return
	}
	g.item++
	g.put(changes)
	for n := size / len(change); n > 2; n-- {
		g.out = append(append(g.out, change...), ',')
	}
	g.put(change + `],"status":"completed"}}`)
	g.out = append(g.out, '\n')
}

// put writes a piece of a shape.
func (g *generator) put(piece string) {
	for i := range len(piece) {
		if piece[i] == '#' {
			g.out = strconv.AppendInt(g.out, int64(g.item), 10)
		} else {
			g.out = append(g.out, piece[i])
		}
	}
}

// The words of the texts, as they stand in JSON.
var (
	prose = []string{
		"the", "a", "of", "to", "and", "is", "in", "that", "it", "we", "file", "test", "error", "value", "returns", "because",
		"connection",
		"reads", "writes", "stream,", "request.", "already", "before", "after", "handler", "changes:", "I'll", "check",
		"first", "then",
	}
	code = []string{
		"func", "return", "err", "!= nil {\\n\\t", "}\\n", "\\\"%s: %w\\\",", "ctx,", "s.mu.Lock()\\n\\t", "if", "len(b)",
		"== 0", ":=", "fmt.Errorf(\\\"read\\\")",
		"internal/server/handler.go:118:", "ok  \\t", "0.012s\\n", "--- FAIL:", "[]byte{", "},\\n\\t\\t", "// comment",
		"C:\\\\tmp\\\\x", "map[string]int",
		"0x7ffe", "2026-11-21T10:00:00Z", "<nil>", "\\u001b[32mPASS\\u001b[0m\\n",
	}
	accents = []string{"é", "naïve", "“quoted”", "—", "…", "→", "✓", "größer", "señal", "🚀", "·"}
	scripts = [][]string{
		{"测试通过。", "修改了处理程序,", "连接已经关闭", "文件", "返回错误:"},
		{"проверка", "ошибка", "файл", "изменения", "и", "соединение"},
	}
)

// words writes a text of about size bytes. A third of them are not ASCII
// alone: most of these hold a few other characters, some are in another script.
func (g *generator) words(size int) {
	vocabulary := prose
	if g.rnd.IntN(2) == 0 {
		vocabulary = code
	}
	var rare []string
	every := 8
	switch p := g.rnd.IntN(20); {
	case p < 5:
		rare = accents
	case p < 7:
		rare, every = scripts[g.rnd.IntN(len(scripts))], 2
	}
	for end := len(g.out) + size; len(g.out) < end; {
		words := vocabulary
		if rare != nil && g.rnd.IntN(every) == 0 {
			words = rare
		}
		word := words[g.rnd.IntN(len(words))]
		if len(g.out)+len(word) > end {
			word = "xxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxx"[:end-len(g.out)]
		}
		g.out = append(g.out, word...)
		switch p := g.rnd.IntN(14); {
		case len(g.out)+2 > end:
		case p == 0:
			g.out = append(g.out, `\n`...)
		default:
			g.out = append(g.out, ' ')
		}
	}
}
