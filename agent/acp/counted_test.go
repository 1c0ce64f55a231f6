package acp_test

import (
	"fmt"
	"slices"
	"testing"

	"github.com/linesman/linesman/normalizer"
	"github.com/linesman/linesman/runs"
)

// counts is what an observer was told.
type counts []string

func (c *counts) TurnEnded(runs.Turn, int64)              { *c = append(*c, "turn") }
func (c *counts) CallEnded(string, string, string, int64) {}
func (c *counts) Asked(kind string)                       { *c = append(*c, "asked "+kind) }
func (c *counts) Message(status string)                   { *c = append(*c, status) }
func (c *counts) Settled(kind, outcome, by string, took int64) {
	*c = append(*c, fmt.Sprint(kind, " ", outcome, " ", by, " ", took))
}

// Each question and each message is counted once, also if its entries are in the log twice.
func TestQuestionsAndMessagesAreCountedOnce(t *testing.T) {
	ask := `< {"jsonrpc":"2.0","id":%d,"method":"session/request_permission","params":{"sessionId":"s","toolCall":` +
		`{"toolCallId":"c","kind":"edit"},"options":[{"optionId":"y","kind":"allow_once","name":""}]}}`
	log := talk("start", "> "+newOne, "< "+opened, "> "+prompt, fmt.Sprintf(ask, 7),
		`{"id":"a","do":"ask","question":"q1"}`,
		`{"id":"b","do":"answer","by":"phone","question":"q1","option":"y"}`, "> "+reply("y"), fmt.Sprintf(ask, 8),
		`{"id":"c","do":"send","text":"one"}`, `{"id":"c","do":"send","text":"one"}`, `{"id":"d","do":"send","text":"two"}`,
		`{"id":"e","do":"unsend","message":"d"}`, "< "+finished,
		`> {"jsonrpc":"2.0","id":3,"method":"session/prompt","params":{"prompt":[{"type":"text","text":"one"}]}}`)
	var got counts
	f := normalizer.NewFold(plain, "r", 0)
	f.Observe(&got)
	for i, e := range log {
		f.Apply(uint64(i+1), e, func(normalizer.Message) {})
	}
	want := counts{"asked permission", "permission allow person 3", "asked permission", "queued", "queued", "removed",
		"turn", "permission cancelled agent 5", "sent"}
	if !slices.Equal(got, want) {
		t.Errorf("got  %q\nwant %q", got, want)
	}
}
