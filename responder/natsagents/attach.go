package natsagents

import (
	"bytes"
	"encoding/base64"
	"fmt"
	"path"
	"strings"
	"unicode"
	"unicode/utf8"

	"github.com/linesman/linesman/api"
	"github.com/linesman/linesman/bounds"
)

const (
	maxAttachments = 16
	maxFilename    = 255  // bytes
	maxBackticks   = 1000 // in a row: the fence has more
)

// attachment is a file of a prompt. Agents of live runs get its text with the prompt: no file is written.
type attachment struct {
	Filename string  `json:"filename"`
	Content  *string `json:"content"` // standard base64 with padding
}

// attach returns a prompt with the texts of its attachments.
func attach(prompt string, all []attachment) (string, error) {
	if strings.TrimSpace(prompt) == "" { // which is refused
		return prompt, nil
	}
	if len(all) > maxAttachments {
		return "", api.Invalid("attachments", fmt.Sprintf("at most %d, got %d", maxAttachments, len(all)))
	}
	texts := make([]string, len(all))
	for i := range all {
		var err error
		if texts[i], err = all[i].text(fmt.Sprintf("attachments.%d", i)); err != nil {
			return "", err
		}
	}
	return prompt + strings.Join(texts, ""), nil
}

// text returns what a prompt has of an attachment.
func (a *attachment) text(field string) (string, error) {
	if a.Content == nil {
		return "", api.Invalid(field+".content", "is missing")
	}
	name := filename(a.Filename)
	content, err := base64.StdEncoding.Strict().DecodeString(*a.Content)
	switch {
	case name == "":
		return "", api.Invalid(field+".filename", "must be a name")
	case err != nil || strings.ContainsAny(*a.Content, "\r\n"):
		return "", api.Invalid(field+".content", "must be standard base64 with padding")
	case !utf8.Valid(content) || bytes.IndexByte(content, 0) >= 0:
		return "", api.Invalid(field+".content", "must be a text in UTF-8: the agents get no other files")
	}
	run, longest := 0, 0
	for _, c := range content {
		if run++; c != '`' {
			run = 0
		}
		longest = max(longest, run)
	}
	if longest > maxBackticks {
		return "", api.Invalid(field+".content", fmt.Sprintf("may have at most %d backticks in a row", maxBackticks))
	}
	fence := strings.Repeat("`", max(3, longest+1))
	text := bytes.TrimSuffix(content, []byte("\n"))
	return fmt.Sprintf("\n\nAttached file %s:\n%s\n%s\n%s", name, fence, text, fence), nil
}

// filename returns the last part of a path, without what shows nothing; "": there is none.
func filename(name string) string {
	name = strings.Map(func(c rune) rune {
		if !unicode.IsPrint(c) || c == '`' {
			return -1
		}
		return c
	}, strings.ReplaceAll(name, `\`, "/"))
	name = strings.TrimSpace(path.Base(name))
	if name == "." || name == ".." || name == "/" {
		return ""
	}
	return name[:bounds.Cut(name, maxFilename)]
}
