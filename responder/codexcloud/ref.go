package codexcloud

import (
	"net/url"
	"path"
	"slices"
	"strings"

	"github.com/linesman/linesman/runs"
)

// pages are the hosts of task pages.
var pages = []string{"chatgpt.com", "www.chatgpt.com", "chat.openai.com", "chatgpt-staging.com"}

// Ref parses a reference to a cloud task: its id, or the URL of its page, with
// or without https. The id of a run (T-…) is not one.
func Ref(s string) (id string, ok bool) {
	s = strings.TrimSpace(s)
	if !strings.Contains(s, "/") {
		return s, runs.CheckCloudTask(s) == nil && !strings.HasPrefix(s, "T-")
	}
	if !strings.Contains(s, "://") {
		s = "https://" + s
	}
	u, err := url.Parse(s)
	if err != nil || u.Scheme != "https" || u.User != nil || !slices.Contains(pages, u.Host) {
		return "", false
	}
	dir, id := path.Split(strings.TrimSuffix(u.EscapedPath(), "/"))
	if !strings.HasSuffix(dir, "/codex/tasks/") || runs.CheckCloudTask(id) != nil {
		return "", false
	}
	return id, true
}

// taskURL parses the line that the program prints for an accepted task. The
// host is not checked.
func taskURL(line string) (id, page string, ok bool) {
	page = strings.TrimSpace(line)
	u, err := url.Parse(page)
	if err != nil || u.Scheme != "https" || u.Host == "" || u.User != nil || len(page) > runs.MaxCloudText-2 {
		return "", "", false
	}
	_, id = path.Split(u.EscapedPath())
	return id, page, runs.CheckCloudTask(id) == nil
}
