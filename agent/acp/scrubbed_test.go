package acp_test

import (
	"bytes"
	"strings"
	"testing"

	"github.com/linesman/linesman/agent/gemini"
	"github.com/linesman/linesman/normalizer"
	"github.com/linesman/linesman/runs"
	"github.com/linesman/linesman/test/fixture/backendtest"
)

// Chunks of a text cut a secret: neither the event of the text, nor the final text has it.
func TestSecretsInChunksAreScrubbed(t *testing.T) {
	key := "ghp_" + strings.Repeat("aB3", 12)
	token := "dop_v1_" + strings.Repeat("0a", 32)
	pem := "-----BEGIN " + `PRIVATE KEY-----` + strings.Repeat(key[10:], 20)
	ends := runs.Entry{Kind: runs.Exited, Body: []byte(`{"reason":"exited","code":0}`)}
	live := func(chunks ...string) []runs.Entry {
		lines := []string{"start", "> " + newOne, "< " + opened, "> " + prompt}
		for _, text := range chunks {
			lines = append(lines, "< "+chunk(text))
		}
		return append(talk(append(lines, "< "+finished)...), ends)
	}
	exec := func(chunks ...string) []runs.Entry {
		var out strings.Builder
		out.WriteString(`{"type":"init","session_id":"s"}` + "\n")
		for _, text := range chunks {
			out.WriteString(`{"type":"message","role":"assistant","delta":true,"content":"` + text + `"}` + "\n")
		}
		out.WriteString(`{"type":"result","status":"success"}` + "\n")
		return append(backendtest.Output([]byte(out.String())), ends)
	}
	for _, c := range []struct {
		why    string
		b      normalizer.Backend
		log    []runs.Entry
		secret string
		want   string
	}{
		{"live", plain, live("the key ", key[:9], key[9:], " is it"), key, "the key [REDACTED:github] is it"},
		{"live, a key of lines", plain, live("the key ", pem[:15], pem[15:40], pem[40:], "-----END PRIVATE KEY----- is it"),
			pem[40:], "the key [REDACTED:private-key] is it"},
		{"exec", gemini.Backend{}, exec("the key ", key[:9], key[9:], " is it"), key, "the key [REDACTED:github] is it"},
		{"a long one", plain, live(strings.Repeat("x", 65_488), " ", key[:9], key[9:], strings.Repeat(" more", 9)), key,
			strings.Repeat("x", 65_488) + " [REDACTED:github] more more …(truncated)"},
		{"a whole one where the text is cut", plain, live(strings.Repeat("x", 65_479)+" ", token+" ok"), token[:20],
			strings.Repeat("x", 65_479) + " …(truncated)"},
		{"one in the only part", plain, live(strings.Repeat("x", 65_479) + " " + token + " ok"), token[:20],
			strings.Repeat("x", 65_479) + " [REDACTED:digitalocean] ok"},
		{"a text without blanks", plain, live(strings.Repeat("x", 70_000), token), token[:20],
			strings.Repeat("x", 57_352) + "…(truncated)"},
		{"a text without blanks and with another", plain, live(strings.Repeat("x", 57_290), "/", token[:30], token[30:],
			strings.Repeat("/xxx", 3000)), token[:20],
			strings.Repeat("x", 57_290) + "/[REDACTED:dig…(truncated)"},
	} {
		t.Run(c.why, func(t *testing.T) {
			messages, fold := backendtest.Fold(normalizer.Scrubbed(c.b, runs.Scrub), c.log)
			for i, m := range messages {
				last := i == len(messages)-1
				if bytes.Contains(m.Body, []byte(c.secret)) {
					t.Errorf("%.200s", m.Body)
				}
				if last && !bytes.Contains(m.Body, []byte(`"final_text":"`+c.want+`"`)) {
					t.Errorf("the completion is %.200s", m.Body)
				}
			}
			if text := fold.Record.FinalText; text == nil {
				t.Error("the record has no final text")
			} else if strings.Contains(*text, c.secret) || !strings.HasPrefix(c.want, *text) {
				t.Errorf("the record has %.200q", *text)
			}
		})
	}
}
