package runs

import (
	"fmt"
	"strings"

	"github.com/linesman/linesman/bounds"
)

// Cloud is what is known of a task that runs in a cloud service. No string of
// it takes more than MaxCloudText bytes of JSON.
type Cloud struct {
	ID           string `json:"id,omitempty"`          // the service's own, see [CheckCloudTask]
	URL          string `json:"url,omitempty"`         // its page, https
	Environment  string `json:"environment,omitempty"` // id or label, as it was asked for
	Status       string `json:"status,omitempty"`      // one of the Cloud constants
	Attempts     int    `json:"attempts,omitempty"`
	Applied      bool   `json:"applied,omitempty"` // its diff was applied somewhere
	FilesChanged int    `json:"files_changed,omitempty"`
	Added        int    `json:"lines_added,omitempty"`
	Removed      int    `json:"lines_removed,omitempty"`
}

// What a cloud service says of a task. A task that is ready or applied has
// completed, one in error has failed.
const (
	CloudPending = "pending"
	CloudReady   = "ready"
	CloudApplied = "applied"
	CloudError   = "error"
)

// Limits of a [Cloud].
const (
	MaxCloudTask = 128
	MaxCloudText = 512 // bytes of JSON
)

// CheckCloudTask reports why id is no id of a cloud task: 1 to MaxCloudTask
// letters, digits, '-' and '_', the first of them a letter or a digit, so that
// it can be no option of a command line.
func CheckCloudTask(id string) error {
	ok := id != "" && len(id) <= MaxCloudTask && id[0] != '-' && id[0] != '_'
	for i := 0; ok && i < len(id); i++ {
		c := id[i]
		ok = 'a' <= c && c <= 'z' || 'A' <= c && c <= 'Z' || '0' <= c && c <= '9' || c == '-' || c == '_'
	}
	if !ok {
		return fmt.Errorf("cloud task: must have 1 to %d letters, digits, '-' and '_', the first a letter or a digit", MaxCloudTask)
	}
	return nil
}

// KnownCloudStatus reports whether status is one of the Cloud constants.
func KnownCloudStatus(status string) bool {
	switch status {
	case CloudPending, CloudReady, CloudApplied, CloudError:
		return true
	}
	return false
}

// Then is c once more is known. What news does not say stays, and so do the
// id, the URL and the environment that were told first: a task has one of
// each. What breaks a limit is left out. Either may be nil.
func (c *Cloud) Then(news *Cloud) *Cloud {
	if news == nil {
		return c
	}
	var next Cloud
	if c != nil {
		next = *c
	}
	if next.ID == "" && CheckCloudTask(news.ID) == nil {
		next.ID = news.ID
	}
	if next.URL == "" && strings.HasPrefix(news.URL, "https://") && plain(news.URL) {
		next.URL = news.URL
	}
	if next.Environment == "" && plain(news.Environment) {
		next.Environment = news.Environment
	}
	if KnownCloudStatus(news.Status) {
		next.Status = news.Status
		next.Applied = next.Applied || news.Status == CloudApplied
	}
	for _, n := range []struct {
		to   *int
		news int
	}{
		{&next.Attempts, news.Attempts}, {&next.FilesChanged, news.FilesChanged},
		{&next.Added, news.Added}, {&next.Removed, news.Removed},
	} {
		if n.news > 0 {
			*n.to = n.news
		}
	}
	return &next
}

func plain(s string) bool { return bounds.StringSize(s) <= MaxCloudText && printable(s) }
