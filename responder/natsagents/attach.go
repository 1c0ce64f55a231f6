package natsagents

import (
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
	maxFilename    = 255 // bytes
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
	for i, a := range all {
		field, name := fmt.Sprintf("attachments.%d", i), filename(a.Filename)
		if a.Content == nil {
			return "", api.Invalid(field+".content", "is missing")
		}
		content, err := base64.StdEncoding.Strict().DecodeString(*a.Content)
		switch {
		case name == "":
			return "", api.Invalid(field+".filename", "must be a name")
		case err != nil || strings.ContainsAny(*a.Content, "\r\n"):
			return "", api.Invalid(field+".content", "must be standard base64 with padding")
		case !utf8.Valid(content) || strings.ContainsRune(string(content), 0):
			return "", api.Invalid(field+".content", "must be a text in UTF-8: the agents get no other files")
		}
		fence := "```"
		for strings.Contains(string(content), fence) {
			fence += "`"
		}
		text := strings.TrimSuffix(string(content), "\n")
		prompt += "\n\nAttached file " + name + ":\n" + fence + "\n" + text + "\n" + fence
	}
	return prompt, nil
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
